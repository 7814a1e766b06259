"""Reads JSON files: an object per line, or per file (or a list of them) with ``multiLine``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa

from penstock.metrics import Metrics
from penstock.serialization.values import (
    NOT_JSON,
    JsonColumns,
    json_text,
    value_converter,
)
from penstock_filesystem.formats._block_decoder import BlockDecoder, TextRow
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._inference import SchemaInference
from penstock_filesystem.formats._lines import Line, LineReader
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, NewColumnsError
from penstock_filesystem.formats._sampling import BlockSampler
from penstock_filesystem.formats.json._inference import (
    JsonInference,
    check_unicode,
    may_hold_unknown_fields,
    unknown_fields,
)
from penstock_filesystem.formats.json._left_over import LeftOver
from penstock_filesystem.formats.json._lines import JsonLines, object_lines

__all__ = ["JsonLinesReader"]


class JsonLinesReader(LineReader):
    """Takes fields by name (case matters), as Spark. A number or an object is taken as its JSON for a string."""

    def __init__(self, options: ReadOptions) -> None:
        lines = JsonLines(options.encoding, options.line_sep, options.multi_line, options.json)
        super().__init__(options, lines, whole=options.multi_line)

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder of fields by name."""
        assert isinstance(self.lines, JsonLines)
        return JsonLinesDecoder(self.lines, self.options, schema, metrics, offsets, elsewhere)

    def inference(self, progress: Callable[[int], object]) -> SchemaInference:
        """Unites the fields of all rows."""
        assert isinstance(self.lines, JsonLines)
        return JsonInference(self.lines, self.options, BlockSampler(self, self.options.sampling_ratio, progress))


class JsonLinesDecoder(BlockDecoder):
    """Decodes lines as blocks. ``multiLine`` documents, maps and binary go row by row: Arrow's parser has none."""

    lines: JsonLines

    def __init__(
        self,
        lines: JsonLines,
        options: ReadOptions,
        schema: pa.Schema,
        metrics: Metrics,
        offsets: bool,
        elsewhere: Collection[str],
    ) -> None:
        super().__init__(lines, schema, options, metrics, offsets=offsets)
        times = options.times
        self._refuses_unknown = options.refuses_new_columns
        self._type = pa.struct(list(self.fields))
        self._elsewhere = {*elsewhere, options.corrupt_column}
        self._columns = JsonColumns(self._type, times, refuses_unknown=self._refuses_unknown or self.rescues)
        self._known_columns = JsonColumns(self._type, times)
        non_numeric = options.json.non_numeric
        self._left_over = LeftOver(self._type, times, non_numeric=non_numeric) if self.rescues else None
        self._problems: list[str] = []
        self._converters = [
            value_converter(field.type, times, self._problems.append, non_numeric=non_numeric) for field in self.fields
        ]

    def parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        """Parses lines that are all objects with Arrow."""
        found = object_lines(self.lines, block)
        if found is None:
            return None
        rows = self._columns.parse(*found)
        if rows is None and self._refuses_unknown and not self.rescues:
            if may_hold_unknown_fields(self.lines, block, self._type, self._elsewhere):
                return None
            rows = self._known_columns.parse(*found)
        return None if rows is None else dict(zip(self.fields.names, rows.flatten(), strict=True))

    def convert(self, line: Line) -> Iterator[TextRow]:
        """Yields the rows of a line: a list of objects is several, and if one of them is bad, all are, as in Spark."""
        parsed, reason = None, ""
        try:
            parsed = self.lines.loose.load(line.text.removeprefix("\ufeff"))
        except NOT_JSON:
            reason = "not JSON"
        values: list[Any] = parsed if isinstance(parsed, list) else [parsed]
        if not all(isinstance(value, dict) for value in values):
            yield TextRow([None] * len(self._converters), reason or "not a JSON object")
            return
        if self._refuses_unknown and line.valid:
            self._refuse_unknown(line.text, values)
        self._problems.clear()
        rows = [
            [convert(value.get(f.name), f.name) for f, convert in zip(self.fields, self._converters, strict=True)]
            for value in values
        ]
        problem = self._problems[0] if self._problems else ""
        for row, value in zip(rows, values, strict=True):
            yield TextRow(row, problem) if self._left_over is None else self._rescued(row, value)

    def _rescued(self, row: list[Any], value: dict[str, Any]) -> TextRow:
        assert self._left_over is not None
        of_file = {name: one for name, one in value.items() if name not in self._elsewhere}
        left = self._left_over.of(of_file, is_typed=not self._problems)
        try:
            return TextRow(row, "", json_text(left) if left else None)
        except RecursionError:
            return TextRow(row, "a value that the schema lacks is nested too deeply")

    def _refuse_unknown(self, text: str, values: list[dict[str, Any]]) -> None:
        try:
            check_unicode(text, values)
        except NOT_JSON:
            return  # inference takes no column from such a row
        unknown = [
            name
            for value in values
            for name in unknown_fields({k: one for k, one in value.items() if k not in self._elsewhere}, self._type)
        ]
        if unknown:
            raise NewColumnsError(unknown)
