"""Rows that do not fit the schema: kept with nulls, dropped, or an error, as the option ``badRecords`` says."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.serialization import shortened

__all__ = ["BadRowPolicy"]


@dataclass(frozen=True)
class BadRowPolicy:
    """What happens to a bad row: null, drop or fail. Every one is counted as ``bad_rows``."""

    choice: str
    metrics: Metrics

    def keeps(self, url: str, offset: int, text: str, reason: str) -> bool:
        """Counts the bad row at ``offset``; returns whether it stays, with nulls. Raises BadDataError (fail)."""
        self.metrics.add("bad_rows")
        if self.choice == "fail":
            raise BadDataError(
                f"{url}, byte {offset}: a bad row ({shortened(reason)}): {shortened(text)!r}; "
                "fix the file, or set badRecords to null or drop"
            )
        return self.choice == "null"
