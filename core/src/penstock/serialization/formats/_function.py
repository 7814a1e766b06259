"""The user's own decoder or encoder: a function from a whole Arrow array to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, FatalError, PenstockError
from penstock.options import OptionValues, load_object
from penstock.serialization.formats._contracts import Decoded, RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._rows import RowErrors, by_parts, described, first_bad_row, with_nulls

__all__ = ["FunctionFormat"]


class FunctionFormat(RecordFormat):
    """A function that takes a whole array, without nulls, and returns one as long: binary to typed, or typed to binary.

    It is kept by its name, ``package.module:function``, and imported in the task. A row for which it raises is a bad
    record, and the others are not lost: a batch for which it raises is tried again in parts. So it must not keep
    anything from one call to the next.
    """

    def __init__(self, reference: str) -> None:
        self._reference = reference

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        """Without ``type``, it is that of what the function returns for an empty array."""
        function = _Function(self._reference)
        if type is None:
            try:
                type = function(pa.array([], pa.binary())).type
            except Exception as error:
                raise BadConfigurationError(
                    f"{self._reference} was called with an empty array, to learn its type, and failed: "
                    f"{described(error)}; give the column's type, or let it return an empty array"
                ) from error
        return _FunctionDecoder(function, type)

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        return _FunctionEncoder(_Function(self._reference))


class _Function:
    """The function with its result checked. Imported at the first call in a process."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        self._loaded: Callable[[pa.Array], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"reference": self.reference, "_loaded": None}

    def __call__(self, array: pa.Array) -> pa.Array:
        if self._loaded is None:
            self._loaded = load_object("format", self.reference)
        result = self._loaded(array)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array) or len(result) != len(array):
            what = f"{len(result)} values" if isinstance(result, pa.Array) else type(result).__name__
            raise FatalError(f"{self.reference} got {len(array)} values and returned {what}: one each is needed")
        return result


def _is_of_the_row(error: Exception) -> bool:
    """Returns whether an exception says something of the data, and not of a service or the function itself."""
    return isinstance(error, BadDataError) or not isinstance(error, PenstockError | MemoryError)


class _FunctionDecoder(RecordDecoder):
    def __init__(self, function: _Function, type_: pa.DataType) -> None:
        self._function = function
        self._type = type_

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values.cast(pa.binary()), self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        last: list[str] = [""]

        def attempt(start: int, stop: int) -> pa.Array | None:
            try:
                return self._function(values.slice(start, stop - start)).cast(self._type)
            except Exception as error:
                if not _is_of_the_row(error):
                    raise
                last[0] = described(error)
                return None

        def give_up(start: int, stop: int) -> pa.Array:
            errors.add(start, last[0])
            return pa.nulls(stop - start, self._type)

        column = by_parts(0, len(values), attempt, give_up, few=1)
        return Decoded(column, errors.array(len(values)))


class _FunctionEncoder(RecordEncoder):
    def __init__(self, function: _Function) -> None:
        self._function = function

    def encode(self, column: pa.Array) -> pa.Array:
        try:
            return with_nulls(column, self._encode).column
        except Exception as error:
            if not _is_of_the_row(error):
                raise
            raise first_bad_row(column, lambda row: with_nulls(row, self._encode).column, error) from error

    def _encode(self, column: pa.Array) -> Decoded:
        return Decoded(self._function(column).cast(pa.binary()))
