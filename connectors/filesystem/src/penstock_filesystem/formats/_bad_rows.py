"""Rows that do not fit the schema, as the option ``badRecords`` says."""

from __future__ import annotations

from penstock.metrics import Metrics
from penstock.serialization import shortened
from penstock.source import BadRecordPolicy

__all__ = ["BadRows"]


class BadRows:
    """What happens to them: null, drop or fail. Every one is counted as ``bad_rows``."""

    def __init__(self, choice: str, metrics: Metrics) -> None:
        self._policy = BadRecordPolicy(choice, ("null", "drop"), metrics)

    def keeps(self, url: str, offset: int, text: str, reason: str) -> bool:
        """Counts the bad row at ``offset``; returns whether it stays, with nulls. Raises BadDataError (fail)."""
        return self._policy.keeps(f"{url}, byte {offset}", f"a bad row ({shortened(reason)}): {shortened(text)!r}")
