"""What users may set, declared as data, and the checked values made from it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import Option, OptionSet, OptionValues

__all__ = ["SOURCE_OPTIONS", "SourceOptions"]

SOURCE_OPTIONS = OptionSet(
    [
        Option("path", "A local file", required=True),
        Option("maxSplitsPerTrigger", "Most splits in a batch", kind="int", minimum=1),
    ]
)


@dataclass(frozen=True)
class SourceOptions:
    """Checked values of :data:`SOURCE_OPTIONS`."""

    path: str
    max_splits: int | None = None

    @classmethod
    def from_values(cls, values: OptionValues) -> SourceOptions:
        """Raises BadConfigurationError for values that do not go together."""
        return cls(values["path"], values["maxSplitsPerTrigger"])
