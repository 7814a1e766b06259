"""Rows that do not fit the schema, as the option ``badRecords`` says."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.dead_letters import letters
from penstock.metrics import Metrics
from penstock.serialization import shortened
from penstock.source import BadRecordPolicy
from penstock_filesystem.formats._reader_base import SplitState

__all__ = ["BadRows", "letters_of"]


class BadRows:
    """What happens to them: null, drop, fail or deadLetter. Every one is counted as ``bad_rows``."""

    def __init__(self, choice: str, metrics: Metrics) -> None:
        self._policy = BadRecordPolicy(choice, ("null", "drop", "deadLetter"), metrics)

    def keeps(self, url: str, offset: int, text: str, reason: str) -> bool:
        """Counts the bad row at ``offset``; returns whether it stays, with nulls. Raises BadDataError (fail).

        Each line is one bad row, also if it holds several.
        """
        return self._policy.keeps(f"{url}, byte {offset}", f"a bad row ({shortened(reason)}): {shortened(text)!r}")


def letters_of(
    state: SplitState, reasons: Sequence[str | None], offsets: Sequence[int], data: Sequence[bytes | None]
) -> pa.Array:
    """Returns a letter for each row that has a reason, and null for the others."""
    errors = [None if reason is None else shortened(reason) for reason in reasons]
    return letters(
        pa.array(errors, pa.string()),
        stage="source",
        connector="filesystem",
        source=state.url,
        offset=pa.array(offsets, pa.int64()),
        value=pa.array(data, pa.binary()),
    )
