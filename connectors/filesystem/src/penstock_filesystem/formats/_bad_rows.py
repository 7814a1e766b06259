"""Rows that do not fit the schema: kept with nulls, dropped, or an error, as Spark's ``mode`` says."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BadDataError
from penstock.metrics import Metrics

__all__ = ["BadRowPolicy"]

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class BadRowPolicy:
    """What happens to a bad row. Every one is counted as ``bad_rows``."""

    mode: str
    metrics: Metrics

    def keeps(self, url: str, offset: int, text: str, reason: str) -> bool:
        """Counts the bad row at ``offset``; returns whether it stays, with nulls. Raises BadDataError (FAILFAST)."""
        self.metrics.add("bad_rows")
        if self.mode == "FAILFAST":
            shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
            raise BadDataError(
                f"{url}, byte {offset}: a bad row ({reason}): {shown!r}; fix the file, or set mode to PERMISSIVE "
                "or DROPMALFORMED"
            )
        return self.mode == "PERMISSIVE"
