"""Records that were read to the column of envelopes: the same for JSON and Avro."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.formats._debezium._encodings import Encoding
from penstock.serialization.formats._debezium._envelope import column_of, note_odd_records, parsed_type
from penstock.serialization.formats._debezium._values import converted
from penstock.serialization.formats._rows import Misfit, RowErrors, by_parts, shown
from penstock.serialization.values import TimeParser

__all__ = ["EnvelopeRows"]

_NAMES = pa.list_(pa.field("element", pa.string()))


class EnvelopeRows:
    """Makes the column of ``type`` out of what was read as :attr:`parsed`, but with values as Debezium writes them."""

    def __init__(self, type_: pa.DataType, zone_name: str, placeholder: str) -> None:
        self.type = type_
        self.parsed = parsed_type(type_)
        self._times = TimeParser(zone_name)
        self._placeholder = _Placeholder(placeholder)
        self._lists_unavailable = type_.get_field_index("unavailable") >= 0
        source = type_.get_field_index("source")
        self.needs_source_text = source >= 0 and type_.field(source).type.get_field_index("json") >= 0

    def column(self, read: pa.StructArray, encoding: Encoding, texts: pa.Array | None, errors: RowErrors) -> pa.Array:
        """Returns the column, row for row. ``errors`` gets the records that are none, whose rows are null.

        ``texts`` are the sources as JSON, if they are needed.
        """
        own = RowErrors()
        reason = ""

        def attempt(start: int, stop: int) -> pa.Array | None:
            nonlocal reason
            try:
                part = read.slice(start, stop - start)
                return self._column(part, encoding, None if texts is None else texts.slice(start, stop - start), own)
            except Misfit as misfit:
                reason = str(misfit)
            except pa.ArrowInvalid as error:  # a time that is too far away
                reason = shown(error)
            return None

        def give_up(start: int, stop: int) -> pa.Array:
            errors.add(start, reason)
            return pa.nulls(stop - start, self.type)

        column = by_parts(0, len(read), attempt, give_up, few=1)
        note_odd_records(read, own)
        odd = own.array(len(read))
        if odd is None:
            return column
        for row in pc.indices_nonzero(odd.is_valid()).to_pylist():
            errors.add(row, odd[row].as_py())
        return pc.if_else(odd.is_null(), column, pa.scalar(None, self.type))

    def _column(self, read: pa.StructArray, encoding: Encoding, texts: pa.Array | None, errors: RowErrors) -> pa.Array:
        names = [pa.nulls(len(read), pa.string())]
        read, found = self._placeholder.taken_out(read, self.parsed)
        if found and not self._lists_unavailable:
            raise Misfit(f"field {found[0][0]}: its value is unavailable, and the schema has no field 'unavailable'")
        names += [pc.if_else(mask, path, None) for path, mask in found]
        column = converted(read, encoding, self.parsed, self._times)
        return column_of(column, self.type, texts, _lists(names))


def _lists(names: list[pa.Array]) -> pa.Array:
    """Returns the names of each row as a list; null for none."""
    count = len(names[0])
    if len(names) == 1:
        return pa.nulls(count, _NAMES)
    joined = pc.binary_join_element_wise(*names[1:], "\n", null_handling="skip")
    return pc.if_else(pc.equal(joined, ""), None, pc.split_pattern(joined, "\n")).cast(_NAMES)


class _Placeholder:
    """What Debezium writes in the place of a value that the database did not send: in each type of column."""

    def __init__(self, text: str) -> None:
        data = bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
        text = data.decode("utf-8", "replace")
        digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
        digest[6] = digest[6] & 0x0F | 0x30  # as Java names a UUID by bytes
        digest[8] = digest[8] & 0x3F | 0x80
        encoded = base64.b64encode(data).decode()
        texts = [text, encoded, encoded.translate(str.maketrans("+/", "-_")), encoded.rstrip("="), data.hex()]
        texts.append(json.dumps({text: text}, separators=(",", ":"), ensure_ascii=False))
        self._texts = pa.array(texts, pa.string())
        self._bytes = pa.array([data], pa.binary())
        items = [[one] for one in (*texts, str(uuid.UUID(bytes=bytes(digest))), data)]
        self._lists: list[Any] = [*items, [one - (one >= 128) * 256 for one in data]]
        self._map = [(text, text)]

    def taken_out(self, read: pa.StructArray, type_: pa.DataType) -> tuple[pa.StructArray, list[tuple[str, pa.Array]]]:
        """Returns the same with null where a value of ``before`` or ``after`` is unavailable, and where these are."""
        found: list[tuple[str, pa.Array]] = []
        children = [read.field(index) for index in range(read.type.num_fields)]
        for part in ("before", "after"):
            index = read.type.get_field_index(part)
            if index < 0 or type_.get_field_index(part) < 0 or not pa.types.is_struct(children[index].type):
                continue
            row = children[index]
            columns = [row.field(number) for number in range(row.type.num_fields)]
            wanted = {field.name for field in type_.field(part).type}
            for number, field in enumerate(row.type):
                mask = self._where(columns[number]) if field.name in wanted else None
                if mask is not None:
                    columns[number] = pc.if_else(mask, pa.scalar(None, field.type), columns[number])
                    found.append((f"{part}.{field.name}", mask))
            children[index] = pa.StructArray.from_arrays(columns, fields=list(row.type), mask=row.is_null())
        if not found:
            return read, found
        return pa.StructArray.from_arrays(children, fields=list(read.type), mask=read.is_null()), found

    def _where(self, column: pa.Array) -> pa.Array | None:
        """Returns where the placeholder is; ``None`` for nowhere."""
        types, kind = pa.types, column.type
        if types.is_string(kind):
            mask = pc.is_in(column, self._texts)
        elif types.is_binary(kind):
            mask = pc.is_in(column, self._bytes)
        elif types.is_map(kind):
            mask = pa.array([value == self._map for value in column.to_pylist()], pa.bool_())
        elif types.is_list(kind):
            lengths = {len(one) for one in self._lists}
            may_be = pc.is_in(pc.list_value_length(column), pa.array(sorted(lengths), pa.int32()))
            if not pc.any(may_be).as_py():
                return None
            # Row by row in Python: lists that are as long as a placeholder's.
            values = pc.if_else(may_be, column, pa.scalar(None, kind)).to_pylist()
            mask = pa.array([value in self._lists for value in values], pa.bool_())
        else:
            return None
        return mask if pc.any(mask).as_py() else None
