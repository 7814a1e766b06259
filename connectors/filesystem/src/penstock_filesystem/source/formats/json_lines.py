"""JSON: an object per line, or per file (or a list of them) with ``multiLine``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.storage import Storage
from penstock_filesystem.source.convert import TemporalConverter
from penstock_filesystem.source.formats.base import Decoder, Rows, SplitState
from penstock_filesystem.source.formats.json_convert import JsonBlockParser, value_converter
from penstock_filesystem.source.formats.lines import Line, LineFormat, halves, merge_pieces
from penstock_filesystem.source.line_reader import Block, whole_block
from penstock_filesystem.source.malformed import BadRowPolicy
from penstock_filesystem.source.opened import OpenedFile

__all__ = ["JsonFormat"]

_SMALL_BYTES = 16 << 10
_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=str)


class JsonFormat(LineFormat):
    """Fields by name (case matters), as Spark. A number or an object where a string is wanted is taken as its JSON."""

    def whole_file_blocks(self, read: Callable[[int], bytes]) -> Iterator[Block]:
        """See the base class; with ``multiLine`` the file is one block (and so in memory as a whole)."""
        if not self.settings.multi_line:
            yield from super().whole_file_blocks(read)
            return
        yield whole_block(read)

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool) -> Decoder:
        """See the base class."""
        return JsonDecoder(self, schema, BadRowPolicy(self.settings.mode, metrics), offsets)

    def infer(self, storage: Storage, files: Sequence[OpenedFile]) -> pa.Schema:
        """The union of the fields in the first block of the first file that is not empty; sorted by name, as Spark."""
        block = self.sample(files)
        lines = [json.dumps(value, default=str) for value in self._sample_objects(block)]
        if not lines:
            raise BadConfigurationError(
                "no JSON object was found, so there is no schema to infer: give one with .schema"
            )
        table = pajson.read_json(pa.BufferReader("\n".join(lines).encode()))
        fields = sorted(table.schema, key=lambda field: field.name)
        return pa.schema([pa.field(field.name, _inferred(field.type)) for field in fields])

    def _sample_objects(self, block: Block) -> Iterator[dict[str, Any]]:
        for line in self.rows(block):
            try:
                value = json.loads(line.text) if line.text.strip() else None
            except ValueError:
                continue
            yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict))

    def rows(self, block: Block) -> Iterator[Line]:
        """The texts of a block that each hold JSON."""
        if not self.settings.multi_line:
            yield from self.lines(block)
            return
        text = block.data.decode(self.block_encoding, "replace")
        yield Line(0, text, "\ufffd" not in text)


def _inferred(type_: pa.DataType) -> pa.DataType:
    """Spark's choice: no timestamps or dates by guess, and a string for what was always null."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _inferred(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_inferred(type_.value_type))
    return pa.string() if pa.types.is_null(type_) or pa.types.is_timestamp(type_) else type_


class JsonDecoder(Decoder):
    """See :class:`Decoder`."""

    def __init__(self, format_: JsonFormat, schema: pa.Schema, policy: BadRowPolicy, offsets: bool) -> None:
        settings = format_.settings
        self._format = format_
        self._schema = schema
        self._policy = policy
        self._offsets = offsets
        self._corrupt = settings.corrupt_column if settings.corrupt_column in schema.names else None
        self._fields = pa.schema([field for field in schema if field.name != self._corrupt])
        temporal = TemporalConverter(settings)
        self._parser = JsonBlockParser(self._fields, temporal)
        self._problems: list[str] = []
        self._converters = [value_converter(field.type, temporal, self._problems.append) for field in self._fields]

    def decode(self, element: Block, state: SplitState) -> Iterator[Rows]:
        """See the base class."""
        pieces = list(self._pieces(element, state))
        if not pieces:
            return
        columns = merge_pieces([piece.columns for piece in pieces], self._schema)
        offsets = pa.concat_arrays([piece.offsets for piece in pieces]) if self._offsets else None
        yield Rows(columns, sum(piece.count for piece in pieces), offsets)

    def _pieces(self, block: Block, state: SplitState) -> Iterator[Rows]:
        if not block.data:
            return
        columns = self._parse_fast(block)
        if columns is not None:
            count = len(next(iter(columns.values())))
            if self._corrupt is not None:
                columns[self._corrupt] = pa.nulls(count, pa.string())
            offsets = self._format.offsets_of(block, lambda text: bool(text.strip())) if self._offsets else None
            yield Rows(columns, count, offsets)
            return
        parts = None
        if len(block.data) > _SMALL_BYTES and not self._format.settings.multi_line:
            parts = halves(block, self._format.separator)
        if parts is None:
            yield self._parse_rows(block, state)
            return
        for part in parts:
            yield from self._pieces(part, state)

    def _parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        data = None if self._format.settings.multi_line else self._format.to_utf8_lines(block.data)
        if data is None:
            return None
        if data.startswith(b"\n") or b"\n\n" in data:
            data = b"\n".join(line for line in data.split(b"\n") if line.strip())
        return self._parser.parse(data) if data else None

    def _parse_rows(self, block: Block, state: SplitState) -> Rows:
        # Row by row in Python: the few rows around one that does not fit, and what Arrow's parser cannot read
        # (multiLine documents; maps and binary).
        values: list[list[Any]] = [[] for _ in self._fields]
        corrupt: list[str | None] = []
        offsets: list[int] = []
        for line in self._format.rows(block):
            if not line.text.strip():
                continue
            for row, reason in self._convert(line):
                if reason and not self._policy.keeps(state.url, line.offset, line.text, reason):
                    continue
                for column, value in zip(values, row, strict=True):
                    column.append(value)
                corrupt.append(line.text if reason else None)
                offsets.append(line.offset)
        columns = {f.name: pa.array(v, f.type) for f, v in zip(self._fields, values, strict=True)}
        if self._corrupt is not None:
            columns[self._corrupt] = pa.array(corrupt, pa.string())
        return Rows(columns, len(offsets), pa.array(offsets, pa.int64()))

    def _convert(self, line: Line) -> Iterator[tuple[list[Any], str]]:
        """The rows of a line, a list of objects being several, each with what was wrong (empty: nothing)."""
        reason = "" if line.valid else f"not {self._format.settings.encoding}"
        parsed: Any = None
        try:
            parsed, _ = _DECODER.raw_decode(line.text.lstrip())
        except (ValueError, RecursionError):
            reason = reason or "not JSON"
        for value in parsed if isinstance(parsed, list) else [parsed]:
            self._problems.clear()
            if not isinstance(value, dict):
                yield [None] * len(self._converters), reason or "not a JSON object"
                continue
            row = [convert(value.get(f.name)) for f, convert in zip(self._fields, self._converters, strict=True)]
            yield row, reason or (self._problems[0] if self._problems else "")
