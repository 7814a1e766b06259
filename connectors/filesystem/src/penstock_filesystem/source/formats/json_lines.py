"""JSON: an object per line, or per file (or a list of them) with ``multiLine``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.serialization.values import JsonColumns, json_decoder, value_converter
from penstock.storage import Storage
from penstock_filesystem.source.formats.base import Decoder
from penstock_filesystem.source.formats.block_decoder import BlockDecoder
from penstock_filesystem.source.formats.lines import Line, LineFormat
from penstock_filesystem.source.line_reader import Block, whole_block
from penstock_filesystem.source.malformed import BadRowPolicy
from penstock_filesystem.source.opened import OpenedFile

__all__ = ["JsonFormat"]

_BLANK_LINE = re.compile(rb"(?:\A|\n)[ \t]*\n|\n[ \t]+\Z")
_DECODER = json_decoder()


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


def _is_utf8(data: bytes) -> bool:
    """Arrow's parser of JSON does not look at what strings are made of."""
    try:
        pa.array([data], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _begin_and_end_as_objects(data: bytes, count: int) -> bool:
    """Whether every one of ``count`` lines begins with { and ends with }, but for blanks."""

    def holds(data: bytes) -> bool:
        return data.startswith(b"{") and data.endswith((b"}\n", b"}")) and data.count(b"}\n{") == count - 1

    return holds(data) or holds(b"\n".join(line.strip() for line in data.split(b"\n")))


def _inferred(type_: pa.DataType) -> pa.DataType:
    """Spark's choice: no timestamps or dates by guess, and a string for what was always null."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _inferred(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_inferred(type_.value_type))
    return pa.string() if pa.types.is_null(type_) or pa.types.is_timestamp(type_) else type_


class JsonDecoder(BlockDecoder):
    """See :class:`BlockDecoder`. Row by row go ``multiLine`` documents, maps and binary: Arrow's parser has none."""

    def __init__(self, format_: JsonFormat, schema: pa.Schema, policy: BadRowPolicy, offsets: bool) -> None:
        super().__init__(format_, schema, policy, offsets)
        times = format_.settings.times
        self._columns = JsonColumns(pa.struct(list(self.fields)), times)
        self._problems: list[str] = []
        self._converters = [value_converter(field.type, times, self._problems.append) for field in self.fields]

    def is_row(self, text: str) -> bool:
        """See the base class."""
        return bool(text.strip())

    def parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        """See the base class."""
        data = None if self.format.settings.multi_line else self.format.to_utf8_lines(block.data)
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
        """See the base class. A list of objects is several rows."""
        parsed, reason = None, ""
        try:
            parsed, _ = _DECODER.raw_decode(line.text.lstrip())
        except (ValueError, RecursionError):
            reason = "not JSON"
        for value in parsed if isinstance(parsed, list) else [parsed]:
            self._problems.clear()
            if not isinstance(value, dict):
                yield [None] * len(self._converters), reason or "not a JSON object"
                continue
            row = [convert(value.get(f.name), f.name) for f, convert in zip(self.fields, self._converters, strict=True)]
            yield row, self._problems[0] if self._problems else ""
