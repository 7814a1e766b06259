"""Rows that do not fit the schema: kept with nulls, dropped, or an error, as the option ``badRecords`` says."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BadDataError
from penstock.metrics import Metrics

__all__ = ["BadRowPolicy"]

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class BadRowPolicy:
    """What happens to a bad row: null, drop or fail. Every one is counted as ``bad_rows``."""

    choice: str
    metrics: Metrics

    def keeps(self, url: str, offset: int, text: str, reason: str) -> bool:
        """Counts the bad row at ``offset``; returns whether it stays, with nulls. Raises BadDataError (fail)."""
        self.metrics.add("bad_rows")
        if self.choice == "fail":
            shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
            raise BadDataError(
                f"{url}, byte {offset}: a bad row ({reason}): {shown!r}; fix the file, or set badRecords to null "
                "or drop"
            )
        return self.choice == "null"
