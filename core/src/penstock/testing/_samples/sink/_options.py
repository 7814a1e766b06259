"""What users may set, declared as data, and the checked values made from it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import Option, OptionSet, OptionValues

__all__ = ["SINK_OPTIONS", "SinkOptions"]

SINK_OPTIONS = OptionSet([Option("path", "A local directory", required=True)])


@dataclass(frozen=True)
class SinkOptions:
    """Checked values of :data:`SINK_OPTIONS`."""

    path: str

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Raises BadConfigurationError for values that do not go together."""
        return cls(values["path"])
