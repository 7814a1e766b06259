"""Records that name their schemas: each is read by that schema, to one type of column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization._malformed import MALFORMED
from penstock.serialization.formats._contracts import Decoded, RecordDecoder
from penstock.serialization.formats._framing import Framing, SameSchema
from penstock.serialization.formats._rows import Misfit, RowErrors, shown, with_nulls
from penstock.serialization.formats._schemas import SchemaKey

__all__ = ["RegisteredDecoder", "SchemaLookup", "WriterDecoders"]

Schema = TypeVar("Schema")
SchemaOut = TypeVar("SchemaOut", covariant=True)


class SchemaLookup(Protocol[SchemaOut]):
    """A registry, to a decoder."""

    @property
    def framing(self) -> Framing:
        """How records name a schema."""

    def schema(self, key: SchemaKey) -> SchemaOut:
        """Returns the schema with that key. Raises Misfit for one that does not exist, RetriableError,
        BadConfigurationError.
        """


class WriterDecoders(ABC, Generic[Schema]):
    """Makes a decoder for each schema that records were written with; all of them decode to :attr:`type`. Pickled."""

    @property
    @abstractmethod
    def type(self) -> pa.DataType:
        """The type of the column."""

    @abstractmethod
    def decoder(self, key: SchemaKey, schema: Schema) -> RecordDecoder:
        """Returns a decoder of records of ``schema``, without their headers.

        Raises Misfit or BadConfigurationError if such records can't become the column.
        """


class RegisteredDecoder(RecordDecoder, Generic[Schema]):
    """Reads each record with the decoder of the schema that its header names.

    A batch may hold any number of schemas. One that is unknown, or can't become the column, makes bad records.
    """

    def __init__(self, registry: SchemaLookup[Schema], decoders: WriterDecoders[Schema]) -> None:
        self._registry = registry
        self._decoders = decoders
        self._known: dict[SchemaKey, RecordDecoder] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    @property
    def type(self) -> pa.DataType:
        return self._decoders.type

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        columns, places = [], []
        for same in self._registry.framing.split(values):
            column = self._column(same, errors)
            if len(column) == len(values):
                return Decoded(column, errors.array(len(values)))
            columns.append(column)
            places.append(same.rows)
        if not columns:
            return Decoded(pa.nulls(0, self.type))
        order = pc.sort_indices(pa.concat_arrays(places))
        return Decoded(pa.concat_arrays(columns).take(order), errors.array(len(values)))

    def _column(self, same: SameSchema, errors: RowErrors) -> pa.Array:
        try:
            if same.problem is not None:
                raise Misfit(same.problem)
            decoded = self._decoder(same.key).decode(same.payloads)
        except Misfit as misfit:
            for row in same.rows.to_pylist():
                errors.add(row, str(misfit))
            return pa.nulls(len(same.rows), self.type)
        if decoded.errors is not None:
            for place in pc.indices_nonzero(decoded.errors.is_valid()).to_pylist():
                errors.add(same.rows[place].as_py(), decoded.errors[place].as_py())
        return decoded.column

    def _decoder(self, key: SchemaKey) -> RecordDecoder:
        if key not in self._known:
            schema = self._registry.schema(key)
            try:
                self._known[key] = self._decoders.decoder(key, schema)
            except BadConfigurationError as error:
                raise Misfit(f"schema {key}: {error}") from None
            except MALFORMED as error:
                raise Misfit(f"schema {key} can't be read: {shown(f'{type(error).__name__}: {error}')}") from None
        return self._known[key]
