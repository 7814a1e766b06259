"""What a query leaves open when it ends, in the words that every command and log uses for it.

A *pending* decision is made and not carried out: what it publishes is not published yet. An *open piece* holds rows of
committed batches and is not published yet, such as a part file that is not full. Both are published by the next start
of the query, or by a command.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.checkpoint._named import home_of, named_sinks
from penstock.checkpoint._stored import chain_of
from penstock.storage import open_storage

__all__ = ["LeftOpen", "left_open"]


@dataclass(frozen=True)
class LeftOpen:
    """The pending decisions and the open pieces of all sinks that ``checkpoint`` is of."""

    checkpoint: str
    pending: int = 0
    pieces: int = 0

    def __bool__(self) -> bool:
        return bool(self.pending or self.pieces)

    @property
    def command(self) -> str:
        """What publishes it while the query does not run."""
        return f"penstock finish {'--take-over ' if self.pending else ''}{shlex.quote(self.checkpoint)}"

    @property
    def what(self) -> str:
        """Says what it is, as a clause. Empty: nothing is open."""
        said = []
        if self.pending:
            said.append(f"{_count(self.pending, 'decision')} {'is' if self.pending == 1 else 'are'} pending")
        if self.pieces:
            said.append(f"{_count(self.pieces, 'open piece')} {'holds' if self.pieces == 1 else 'hold'}")
        if not said:
            return ""
        rows = "committed rows that no reader sees yet"
        return f"{' and '.join(said)} {rows}" if self.pieces else f"{said[0]}: {rows}"

    def __str__(self) -> str:
        return f"{self.what}: restart the query, or run: {self.command}" if self else ""


def left_open(
    checkpoint: str, options: Mapping[str, str] | None = None, *, logs: Sequence[str] | None = None
) -> LeftOpen:
    """Reads what is open, without the sinks' connectors. ``logs`` are the names of the decision logs, if known.

    Nothing is open in a checkpoint without a decision log. Raises what the checkpoint's storage raises.
    """
    storage, path = open_storage(checkpoint, options)
    pending = pieces = 0
    for name in ("", *named_sinks(storage, path)) if logs is None else logs:
        head = chain_of(storage, home_of(path, name)).head()
        pending += head.pending is not None
        pieces += len(head.link.states)
    return LeftOpen(checkpoint, pending, pieces)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
