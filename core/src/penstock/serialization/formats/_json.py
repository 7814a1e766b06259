"""JSON: one object a record."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet, OptionValues
from penstock.serialization.formats._contracts import RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._json_decoder import JsonDecoder
from penstock.serialization.formats._json_encoder import JsonEncoder
from penstock.serialization.formats._options import JSON_OPTIONS
from penstock.serialization.values import is_text

__all__ = ["JsonFormat"]


class JsonFormat(RecordFormat):
    """Objects as struct columns, with the types of Spark's from_json and to_json.

    Reading: fields by name (case matters), others are ignored, missing ones are null; text takes any value, as its
    JSON; decimals are rounded to their scale; dates and timestamps are ISO texts (a timestamp with a zone may also be
    whole seconds since 1970), binary is base 64. A value that does not fit makes the record a bad one. So do, unlike
    in Spark, anything after the object, and a record without bytes.

    Writing: null fields are left out (in a map or a list they are null), timestamps have their microseconds, those
    with a zone are in UTC with a Z; binary is base 64, NaN and infinity are texts, a null struct is a null record.
    """

    options: ClassVar[OptionSet] = JSON_OPTIONS

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        if type is None:
            raise BadConfigurationError("format json needs a schema to decode to: name the fields and their types")
        _check_struct(type)
        return JsonDecoder(type, options["timeZone"])

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        if type is None:
            raise BadConfigurationError("format json needs the type of the column to write")
        _check_struct(type)
        return JsonEncoder(ignore_nulls=options["ignoreNullFields"])


def _check_struct(type_: pa.DataType) -> None:
    if not pa.types.is_struct(type_) or not type_.num_fields:
        raise BadConfigurationError(f"format json is for struct columns, not {type_}: put the columns into a struct")
    for field in type_:
        _check("", field)


def _check(parent: str, field: pa.Field) -> None:
    path, kind, types = f"{parent}{field.name}", field.type, pa.types
    if types.is_map(kind) and not is_text(kind.key_type):
        raise BadConfigurationError(f"format json: keys of the map '{path}' must be strings, not {kind.key_type}")
    if types.is_struct(kind):
        for child in kind:
            _check(f"{path}.", child)
    elif types.is_map(kind):
        _check(f"{path}.", pa.field("value", kind.item_type))
    elif types.is_list(kind) or types.is_large_list(kind):
        _check(f"{path}.", pa.field("element", kind.value_type))
    elif not _is_plain(kind):
        raise BadConfigurationError(f"format json has no form for '{path}' of type {kind}: cast it to string")


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    numbers = types.is_signed_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    times = types.is_date32(kind) or types.is_timestamp(kind)
    texts = is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    return bool(numbers or times or texts or types.is_boolean(kind))
