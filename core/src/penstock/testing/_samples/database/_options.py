"""What users may set, declared as data, and the checked values made from it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import Option, OptionSet, OptionValues, common_option

__all__ = ["SINK_OPTIONS", "SinkOptions"]

SINK_OPTIONS = OptionSet(
    [
        Option("path", "The database, a file", required=True),
        common_option("requestTimeout", "; also how long a statement waits for a lock"),
    ]
)


@dataclass(frozen=True)
class SinkOptions:
    """Checked values of :data:`SINK_OPTIONS`."""

    path: str
    request_timeout_s: float

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Raises BadConfigurationError for values that do not go together."""
        return cls(values["path"], values["requestTimeout"] / 1000)
