"""Records that are their own value: bytes, and text."""

from __future__ import annotations

import codecs
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import OptionSet, OptionValues
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._contracts import Decoded, RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._options import STRING_OPTIONS
from penstock.serialization.formats._rows import RowErrors, shown, with_nulls
from penstock.serialization.values import is_text

__all__ = ["BinaryFormat", "StringFormat"]


def _is_bytes(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_))


class BinaryFormat(RecordFormat):
    """The bytes as they are. A string column is written as UTF-8, as Spark's Kafka sink does."""

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        if type is not None and not _is_bytes(type):
            raise BadConfigurationError(
                f"format binary decodes to binary, not to {shown_type(type)}: use string, json or avro"
            )
        return _Identity(type or pa.binary())

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        if type is not None and not (_is_bytes(type) or is_text(type)):
            raise BadConfigurationError(
                f"format binary writes binary or string columns, not {shown_type(type)}: use json or avro"
            )
        return _AsBytes()


class _Identity(RecordDecoder):
    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, values: pa.Array) -> Decoded:
        return Decoded(values if values.type == self._type else values.cast(self._type))


class _AsBytes(RecordEncoder):
    def encode(self, column: pa.Array) -> pa.Array:
        return column if column.type == pa.binary() else column.cast(pa.binary())


class StringFormat(RecordFormat):
    """Text, UTF-8 unless ``charset`` says otherwise."""

    options: ClassVar[OptionSet] = STRING_OPTIONS

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        if type is not None and not is_text(type):
            raise BadConfigurationError(
                f"format string decodes to string, not to {shown_type(type)}: cast it afterwards"
            )
        return _StringDecoder(type or pa.string(), _charset(options["charset"]))

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        if type is not None and not is_text(type):
            raise BadConfigurationError(
                f"format string writes string columns, not {shown_type(type)}: cast it to string"
            )
        return _StringEncoder(_charset(options["charset"]))


def _charset(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise BadConfigurationError(f"option 'charset': {name!r} is not a known character set") from None


class _StringDecoder(RecordDecoder):
    def __init__(self, type_: pa.DataType, charset: str) -> None:
        self._type = type_
        self._charset = charset

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, values: pa.Array) -> Decoded:
        if self._charset in ("utf-8", "ascii"):
            try:
                column = values.cast(pa.string())
                if self._charset == "utf-8" or pc.all(pc.string_is_ascii(column)).as_py() is not False:
                    return Decoded(column.cast(self._type))
            except pa.ArrowInvalid:
                pass
        return with_nulls(values, self._decode_rows)

    def _decode_rows(self, values: pa.Array) -> Decoded:
        # Row by row in Python: batches with a record that is not valid, and character sets that Arrow does not know.
        texts: list[str | None] = []
        errors = RowErrors()
        for row, value in enumerate(values.to_pylist()):
            try:
                texts.append(value.decode(self._charset))
            except UnicodeError as error:
                texts.append(None)
                errors.add(row, f"not {self._charset}: {shown(error)}")
        return Decoded(pa.array(texts, self._type), errors.array(len(texts)))


class _StringEncoder(RecordEncoder):
    def __init__(self, charset: str) -> None:
        self._charset = charset

    def encode(self, column: pa.Array) -> pa.Array:
        if self._charset == "utf-8":
            return column.cast(pa.binary())
        encoded: list[bytes | None] = []
        # Row by row in Python: Arrow writes UTF-8 only.
        for row, text in enumerate(column.to_pylist()):
            try:
                encoded.append(None if text is None else text.encode(self._charset))
            except UnicodeError as error:
                raise BadDataError(f"row {row} of the batch can't be written: {shown(error)}") from None
        return pa.array(encoded, pa.binary())
