"""Reads JSON files: an object per line, or per file (or a list of them) with ``multiLine``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.serialization.values import NOT_JSON, JsonColumns, json_decoder, value_converter
from penstock_filesystem.formats._bad_rows import BadRows
from penstock_filesystem.formats._block_decoder import BlockDecoder
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._lines import Line, LineReader, Lines
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder

__all__ = ["JsonLinesReader"]

_BLANK_LINE = re.compile(rb"(?:\A|\n)[ \t]*\n|\n[ \t]+\Z")
_DECODER = json_decoder()


class JsonLines(Lines):
    """The rows of JSON. With ``multi_line``, the block is one text."""

    def rows(self, block: Block) -> Iterator[Line]:
        """Yields the texts of a block that each hold JSON."""
        if not self.multi_line:
            yield from self.lines(block)
            return
        text = block.data.decode(self.block_encoding, "replace")
        yield Line(0, text, "\ufffd" not in text)


class JsonLinesReader(LineReader):
    """Takes fields by name (case matters), as Spark. A number or an object is taken as its JSON for a string."""

    def __init__(self, options: ReadOptions) -> None:
        lines = JsonLines(options.encoding, options.line_sep, options.multi_line)
        super().__init__(options, lines, whole=options.multi_line)

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool) -> Decoder:
        """Creates a decoder of fields by name."""
        return JsonLinesDecoder(self.lines, self.options, schema, metrics, offsets)

    def infer(self, files: Sequence[InputFile]) -> pa.Schema:
        """Unites the fields in the first block of the first file that is not empty; sorted by name, as Spark."""
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
        for line in self.lines.rows(block):
            try:
                value = json.loads(line.text) if line.text.strip() else None
            except (ValueError, RecursionError):
                continue
            yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict))


def _is_utf8(data: bytes) -> bool:
    """Returns whether the bytes are UTF-8, which Arrow's parser of JSON does not check."""
    try:
        pa.array([data], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _begin_and_end_as_objects(data: bytes, count: int) -> bool:
    """Returns whether every one of ``count`` lines begins with { and ends with }, except for blanks."""

    def holds(data: bytes) -> bool:
        return data.startswith(b"{") and data.endswith((b"}\n", b"}")) and data.count(b"}\n{") == count - 1

    return holds(data) or holds(b"\n".join(line.strip() for line in data.split(b"\n")))


def _inferred(type_: pa.DataType) -> pa.DataType:
    """Follows Spark: no timestamps or dates by guess, and a string for what was always null."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _inferred(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_inferred(type_.value_type))
    return pa.string() if pa.types.is_null(type_) or pa.types.is_timestamp(type_) else type_


class JsonLinesDecoder(BlockDecoder):
    """Decodes lines as blocks. ``multiLine`` documents, maps and binary go row by row: Arrow's parser has none."""

    def __init__(self, lines: Lines, options: ReadOptions, schema: pa.Schema, metrics: Metrics, offsets: bool) -> None:
        super().__init__(lines, schema, options.corrupt_column, BadRows(options.bad_records, metrics), offsets)
        times = options.times
        self._columns = JsonColumns(pa.struct(list(self.fields)), times)
        self._problems: list[str] = []
        self._converters = [value_converter(field.type, times, self._problems.append) for field in self.fields]

    def parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        """Parses lines that are all objects with Arrow."""
        data = None if self.lines.multi_line else self.lines.to_utf8_lines(block.data)
        if data is None:
            return None
        if _BLANK_LINE.search(data):
            data = b"\n".join(line for line in data.split(b"\n") if line.strip())
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        if not data or not _is_utf8(data) or not _begin_and_end_as_objects(data, count):
            return None
        rows = self._columns.parse(data, count)
        return None if rows is None else dict(zip(self.fields.names, rows.flatten(), strict=True))

    def convert(self, line: Line) -> Iterator[tuple[list[Any], str]]:
        """Yields the rows of a line: a list of objects is several, and if one of them is bad, all are, as in Spark."""
        parsed, reason = None, ""
        try:
            parsed, _ = _DECODER.raw_decode(line.text.lstrip())
        except NOT_JSON:
            reason = "not JSON"
        values: list[Any] = parsed if isinstance(parsed, list) else [parsed]
        if not all(isinstance(value, dict) for value in values):
            yield [None] * len(self._converters), reason or "not a JSON object"
            return
        self._problems.clear()
        rows = [
            [convert(value.get(f.name), f.name) for f, convert in zip(self.fields, self._converters, strict=True)]
            for value in values
        ]
        for row in rows:
            yield row, self._problems[0] if self._problems else ""
