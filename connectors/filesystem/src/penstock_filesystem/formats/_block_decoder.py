"""Decoding a block of text rows: as a whole where every row fits, else in smaller and smaller pieces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from penstock.dead_letters import LETTER_TYPE
from penstock.metrics import Metrics
from penstock_filesystem.formats._bad_rows import BadRows, letters_of
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._lines import Line, Lines, halves, merge_pieces
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, Rows, SplitState

__all__ = ["BlockDecoder", "TextRow", "in_pieces"]

T = TypeVar("T")

#: A block smaller than this that does not fit is read row by row; a larger one is halved, to find the rows.
_SMALL_BYTES = 16 << 10


def in_pieces(
    block: Block, lines: Lines, whole: Callable[[Block], T | None], by_row: Callable[[Block], T]
) -> Iterator[T]:
    """Yields what ``whole`` makes of a block, or of its halves, and so on: ``None`` refuses one.

    Small pieces that are refused, and those that can't be cut, go through ``by_row``.
    """
    if not block.data:
        return
    made = whole(block)
    if made is not None:
        yield made
        return
    parts = None
    if len(block.data) > _SMALL_BYTES and not lines.multi_line:
        parts = halves(block, lines.separator)
    if parts is None:
        yield by_row(block)
        return
    for part in parts:
        yield from in_pieces(part, lines, whole, by_row)


class TextRow(NamedTuple):
    """The values of a row, ``None`` for what does not fit, and what is wrong with it or ``""``.

    ``rescued``: what does not fit as JSON, if the decoder rescues it: then that is not wrong.
    """

    values: list[Any]
    problem: str
    rescued: str | None = None


class BlockDecoder(Decoder):
    """Decodes a block as a whole where it can, see :func:`in_pieces`.

    ``fields`` are the schema's without the columns for corrupt records, dead letters and rescued data; ``rescues`` is
    whether it has the latter.
    """

    def __init__(
        self, lines: Lines, schema: pa.Schema, options: ReadOptions, metrics: Metrics, *, offsets: bool
    ) -> None:
        self.lines = lines
        self.offsets = offsets
        self._schema = schema
        self._policy = BadRows(options.bad_records, metrics)
        self._metrics = metrics
        self._corrupt = options.corrupt_column if options.corrupt_column in schema.names else None
        self._rescue = options.rescue_column if options.rescue_column in schema.names else None
        self._letter = options.letter_column if options.letter_column in schema.names else None
        self.rescues = self._rescue is not None
        added = (self._corrupt, self._rescue, self._letter)
        self.fields = pa.schema([field for field in schema if field.name not in added])

    @abstractmethod
    def parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        """Returns every row of the block as columns of ``fields``; ``None`` if one of them does not fit."""

    @abstractmethod
    def convert(self, line: Line) -> Iterator[TextRow]:
        """Yields the rows of a line."""

    def decode(self, element: Block, state: SplitState) -> Iterator[Rows]:
        """Yields the rows of a block together."""
        pieces = list(in_pieces(element, self.lines, self._whole, lambda part: self._parse_rows(part, state)))
        if not pieces:
            return
        columns = merge_pieces([piece.columns for piece in pieces], self._schema)
        offsets = pa.concat_arrays([piece.offsets for piece in pieces]) if self.offsets else None
        yield Rows(columns, sum(piece.count for piece in pieces), offsets)

    def _whole(self, block: Block) -> Rows | None:
        columns = self.parse_fast(block)
        if columns is None:
            return None
        count = len(next(iter(columns.values())))
        for name in (self._corrupt, self._rescue):
            if name is not None:
                columns[name] = pa.nulls(count, pa.string())
        if self._letter is not None:
            columns[self._letter] = pa.nulls(count, LETTER_TYPE)
        return Rows(columns, count, self.lines.offsets(block) if self.offsets else None)

    def _parse_rows(self, block: Block, state: SplitState) -> Rows:
        # Row by row in Python: the few rows around one that does not fit, and what the quick way can't read at all.
        values: list[list[Any]] = [[] for _ in self.fields]
        corrupt: list[str | None] = []
        reasons: list[str | None] = []
        data: list[bytes | None] = []
        rescued: list[str | None] = []
        offsets: list[int] = []
        for line in self.lines.rows(block):
            if not self.lines.is_row(line.text):
                continue
            for number, row in enumerate(self.convert(line)):
                reason = row.problem if line.valid else f"not {self.lines.encoding}"
                if reason and number and self._letter is not None:
                    break  # the line is one letter, whatever it holds
                if reason and not self._policy.keeps(state.url, line.offset, line.text, reason):
                    continue
                for column, value in zip(values, row.values, strict=True):
                    column.append(value)
                corrupt.append(line.text if reason else None)
                rescued.append(None if reason else row.rescued)
                offsets.append(line.offset)
                reasons.append(reason or None)
                data.append(self.lines.bytes_of(line) if reason and self._letter is not None else None)
        columns = {f.name: pa.array(v, f.type) for f, v in zip(self.fields, values, strict=True)}
        if self._corrupt is not None:
            columns[self._corrupt] = pa.array(corrupt, pa.string())
        if self._letter is not None:
            columns[self._letter] = letters_of(state, reasons, offsets, data)
        if self._rescue is not None:
            columns[self._rescue] = pa.array(rescued, pa.string())
            self._metrics.add("rescued_rows", len(rescued) - rescued.count(None))
        return Rows(columns, len(offsets), pa.array(offsets, pa.int64()))
