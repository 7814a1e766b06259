"""From the bytes of records to a typed column and back: Flink's DeserializationSchema and SerializationSchema."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet, OptionValues

__all__ = ["Decoded", "RecordDecoder", "RecordEncoder", "RecordFormat"]


@dataclass(frozen=True)
class Decoded:
    """A decoded batch, row for row.

    ``column`` has the decoder's type; it is null where the record was null and where it could not be decoded.
    ``errors`` (string) holds the reason where a record could not be decoded, else null; ``None`` if all could.
    Reasons may quote up to 100 characters of the record (a function's are its own).
    """

    column: pa.Array
    errors: pa.Array | None = None


class RecordDecoder(ABC):
    """Binary values to a typed column. Built on the driver, pickled to the tasks, used there by one thread.

    Memory is bounded by the batch: a small multiple of its bytes.
    """

    @property
    @abstractmethod
    def type(self) -> pa.DataType:
        """The type of every decoded column. Known on the driver, before any record is read."""

    @abstractmethod
    def decode(self, values: pa.Array) -> Decoded:
        """Decodes a binary array that may hold nulls. What to do about bad records is the caller's policy.

        Raises :class:`penstock.errors.RetriableError` if a service that decoding needs does not answer, and
        :class:`penstock.errors.BadConfigurationError` if it refuses.
        """


class RecordEncoder(ABC):
    """A typed column to binary values. Built on the driver, pickled to the tasks, used there by one thread."""

    @abstractmethod
    def encode(self, column: pa.Array) -> pa.Array:
        """Returns a binary array, row for row; a null value gives a null record.

        Raises :class:`penstock.errors.BadDataError` for the first value that can't be written: its row (from 0, in
        this batch) and why.
        """


class RecordFormat:
    """A plugin: the factory of a format's decoders and encoders, or of one of them. Built without arguments, driver.

    Third parties name theirs by an entry point of the group ``penstock.formats``. ``type`` is the Arrow type of the
    typed side where the user or the engine has given one.
    """

    options: ClassVar[OptionSet] = OptionSet()

    def column_type(self, declared: pa.DataType) -> pa.DataType:
        """Returns the type of the column for the schema that a user gave as an option, ``declared``: the same.

        A format overrides it whose schema describes a part of the column.
        """
        return declared

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        """Returns a decoder. Raises BadConfigurationError if ``type`` or the options do not fit."""
        raise BadConfigurationError(f"{builtins.type(self).__name__} can't decode: choose another format to read")

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        """Returns an encoder for columns of ``type``. Raises BadConfigurationError if ``type`` or the options do not
        fit.
        """
        raise BadConfigurationError(f"{builtins.type(self).__name__} can't encode: choose another format to write")
