"""Debezium's envelopes in JSON to a column, with or without the schema of Kafka Connect's converter."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.formats._debezium._connect import encoding_of_connect
from penstock.serialization.formats._debezium._encodings import Encoding, Encodings, raw_type
from penstock.serialization.formats._debezium._rows import EnvelopeRows
from penstock.serialization.formats._json_decoder import JsonDecoder, begin_and_end_as_objects, load_object
from penstock.serialization.formats._rows import Misfit, PartwiseDecoder, RowErrors
from penstock.serialization.values import NOT_JSON, JsonColumns, TimeParser, json_text

__all__ = ["DebeziumJsonDecoder"]

_MOST_SCHEMAS = 100
_UTC = TimeParser("UTC")
_SCHEMA = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_PAYLOAD = re.compile(r'\s*,\s*"payload"\s*:\s*')
#: A key that ends so is one: within a text, a quote has a backslash before it.
_KEY = r'"source"\s*:'
_SOURCE = r'"source"\s*:\s*(?P<source>\{[^{}]*\})'
#: What is put in the place of a schema.
_WRAPPED = '{"payload":'
_SCANNER = json.JSONDecoder()
_OBJECTS = JsonColumns(pa.struct([("version", pa.string())]), _UTC)


@dataclass(frozen=True)
class _Layout:
    """What records have in common: the text before the payload, ending with its colon, and how values are written."""

    prefix: str
    encoding: Encoding


class DebeziumJsonDecoder(PartwiseDecoder):
    """See :class:`RecordDecoder`.

    Records of one layout go through Arrow's parser together. Where one is of another, a few around it are looked at
    one by one, and grouped by their layouts. The last one that was met is tried next.
    """

    def __init__(self, rows: EnvelopeRows, encodings: Encodings) -> None:
        self._rows = rows
        self._encodings = encodings
        self._layout: _Layout | None = None
        #: By the text in front of the payload: what the schema in it says.
        self._described: dict[str, Encoding] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_layout": None, "_described": {}}

    @property
    def type(self) -> pa.DataType:
        return self._rows.type

    # --- records that are like those before -------------------------------------------------------------------------

    def _parse(self, values: pa.Array) -> pa.Array | None:
        """Returns the column, if every record is of the last layout, and none is a bad one."""
        layout = self._layout
        if layout is None or not len(values):
            return None if len(values) else pa.nulls(0, self.type)
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        payloads = _payloads(texts, layout.prefix)
        if payloads is None or not begin_and_end_as_objects(payloads):
            return None
        if self._may_hold_quoted_numbers(payloads, layout):
            return None
        lines = pc.binary_join_element_wise(payloads, "\n", "")
        raw = raw_type(layout.encoding, self._rows.parsed)
        wrapped = pa.struct([("payload", raw)]) if layout.prefix else raw
        read = JsonColumns(wrapped, _UTC).parse(lines.buffers()[2], len(values))
        if read is not None and layout.prefix:
            read = read.field(0)
        if read is None or read.null_count:
            return None
        sources = None
        if self._rows.needs_source_text:
            sources = _source_texts(payloads, read.field("source"))
            if sources is None:
                return None
        own = RowErrors()
        column = self._rows.column(read, layout.encoding, sources, own)
        return None if own else column

    def _may_hold_quoted_numbers(self, payloads: pa.Array, layout: _Layout) -> bool:
        """Returns whether a text may stand where a decimal is a number: Arrow's parser would read it as one."""
        if not layout.encoding.holds("number"):
            return False
        pattern = "|".join([r"\\u", *sorted(_quoted_numbers(self._rows.parsed, layout.encoding))])
        return bool(pc.any(pc.match_substring_regex(payloads, pattern)).as_py())

    # --- a closer look ----------------------------------------------------------------------------------------------

    def _parse_rows(self, values: pa.Array, first: int, errors: RowErrors) -> pa.Array:
        # Row by row in Python: what a record is made of decides how it is read.
        groups: dict[Encoding, list[tuple[int, str, str | None]]] = {}
        for row, value in enumerate(values.to_pylist()):
            try:
                one = self._look_at(value)
            except Misfit as misfit:
                errors.add(first + row, str(misfit))
                continue
            if one is not None:
                layout, payload, source = one
                self._remember(layout)
                groups.setdefault(layout.encoding, []).append((row, payload, source))
        columns, places = [], []
        for encoding, members in groups.items():
            rows = [row for row, _, _ in members]
            columns.append(self._group(encoding, members, [first + row for row in rows], errors))
            places += rows
        if not columns:
            return pa.nulls(len(values), self.type)
        order: list[int | None] = [None] * len(values)
        for position, row in enumerate(places):
            order[row] = position
        return pa.concat_arrays(columns).take(pa.array(order, pa.int32()))

    def _group(
        self, encoding: Encoding, members: list[tuple[int, str, str | None]], rows: list[int], errors: RowErrors
    ) -> pa.Array:
        payloads = pa.array([payload.encode() for _, payload, _ in members], pa.binary())
        decoded = JsonDecoder(raw_type(encoding, self._rows.parsed), "UTC").decode(payloads)
        own = RowErrors()
        sources = pa.array([source for _, _, source in members], pa.string())
        column = self._rows.column(decoded.column, encoding, sources, own)
        for position, row in enumerate(rows):
            reason = None if decoded.errors is None else decoded.errors[position].as_py()
            reason = reason or own.reason(position)
            if reason is not None:
                errors.add(row, reason)
        return column if decoded.errors is None else pc.if_else(decoded.errors.is_null(), column, _null(self.type))

    def _look_at(self, value: bytes) -> tuple[_Layout, str, str | None] | None:
        """Returns the layout of a record, its payload and its source; ``None`` for a tombstone that has a schema.

        Raises Misfit for a record that is none.
        """
        record, text = load_object(value), value.decode()
        if set(record) != {"schema", "payload"}:
            encoding = self._encodings.of_value(self._rows.parsed, record)
            return _Layout("", encoding), text, self._source_text(text, record)
        schema, payload = record["schema"], record["payload"]
        if payload is None:
            return None
        if not isinstance(payload, dict):
            raise Misfit("the record's payload is not an object")
        prefix = _prefix(text)
        inner = json_text(payload) if prefix is None else text[len(prefix) :].rstrip()[:-1]
        if schema is None:
            encoding = self._encodings.of_value(self._rows.parsed, payload)
        else:
            encoding = self._encoding_of_schema(schema, prefix)
        return _Layout(prefix or "", encoding), inner, self._source_text(inner, payload)

    def _encoding_of_schema(self, schema: Any, prefix: str | None) -> Encoding:
        """Returns what ``schema`` says. A text in front of the payload is the same for many records."""
        known = None if prefix is None else self._described.get(prefix)
        if known is not None:
            return known
        encoding = encoding_of_connect(self._rows.parsed, schema, self._encodings)
        if prefix is not None:
            if len(self._described) >= _MOST_SCHEMAS:
                self._described.clear()
            self._described[prefix] = encoding
        return encoding

    def _source_text(self, payload: str, record: dict[str, Any]) -> str | None:
        return _source_text(payload, record.get("source")) if self._rows.needs_source_text else None

    def _remember(self, layout: _Layout) -> None:
        before = self._layout
        if before is None or before.prefix != layout.prefix:
            self._layout = layout
        else:
            self._layout = _Layout(layout.prefix, layout.encoding.completed(before.encoding))


def _null(type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(None, type_)


def _payloads(texts: pa.Array, prefix: str) -> pa.Array | None:
    """Returns records without their schema, if every one begins with ``prefix``."""
    if not prefix:
        return texts
    if not pc.all(pc.starts_with(texts, prefix)).as_py():
        return None
    return pc.replace_substring(texts, prefix, _WRAPPED, max_replacements=1)


def _prefix(text: str) -> str | None:
    """Returns what is before the payload; ``None`` if it does not follow the schema."""
    begin = _SCHEMA.match(text)
    if begin is None:
        return None
    try:
        _, end = _SCANNER.raw_decode(text, begin.end())
    except NOT_JSON:
        return None
    found = _PAYLOAD.match(text, end)
    return None if found is None else text[: found.end()]


def _source_texts(payloads: pa.Array, sources: pa.Array) -> pa.Array | None:
    """Returns the sources as they are written; ``None`` if one is not to be found without a doubt.

    What the envelope holds and what is there only once are the same. An object without a brace in it ends at the next.
    """
    present = sources.is_valid()
    counts = pc.count_substring(payloads, '"source"')
    if pc.any(pc.and_(present, pc.not_equal(counts, 1))).as_py():
        return None
    pieces = pc.split_pattern(payloads.filter(present), '"source":', max_splits=1)
    if not pc.all(pc.equal(pc.list_value_length(pieces), 2)).as_py():
        return None
    after_key = pc.list_element(pieces, 1)
    after_key = pc.ascii_ltrim_whitespace(after_key)
    found = pc.binary_join_element_wise(pc.list_element(pc.split_pattern(after_key, "}", max_splits=1), 0), "}", "")
    is_flat = pc.and_(pc.starts_with(found, "{"), pc.equal(pc.count_substring(found, "{"), 1))
    if not pc.all(is_flat).as_py():
        return None
    # An object that was cut within a text is none.
    lines = pc.binary_join_element_wise(found, "\n", "")
    if len(found) and _OBJECTS.parse(lines.buffers()[2], len(found)) is None:
        return None
    return (
        found
        if len(found) == len(payloads)
        else pc.replace_with_mask(pa.nulls(len(payloads), pa.string()), present, found)
    )


def _source_text(payload: str, source: Any) -> str | None:
    """Returns the source of one record as :func:`_source_texts` does, or else as it was parsed."""
    if source is None:
        return None
    if len(re.findall(_KEY, payload)) == 1 and (found := re.search(_SOURCE, payload)):
        try:
            json.loads(found["source"])
            return found["source"]
        except NOT_JSON:
            pass
    return json_text(source)


def _quoted_numbers(type_: pa.DataType, encoding: Encoding) -> set[str]:
    """Returns patterns of texts that hold a text where a decimal is a number; more texts than these may match."""
    found: set[str] = set()
    if pa.types.is_list(type_):
        return _quoted_numbers(type_.value_type, encoding.parts[0]) if encoding.parts else found
    if not pa.types.is_struct(type_):
        return found
    for field, part in zip(type_, encoding.parts, strict=False):
        key = rf'"{re.escape(json.dumps(field.name, ensure_ascii=False)[1:-1])}"\s*:\s*'
        if part.how == "number":
            found.add(key + '"')
        elif pa.types.is_list(field.type) and part.holds("number"):
            found.add(key + (r'\[[^\]]*"' if part.parts[0].how == "number" else r"\["))
        else:
            found |= _quoted_numbers(field.type, part)
    return found
