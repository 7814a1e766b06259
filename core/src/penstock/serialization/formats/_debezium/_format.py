"""Debezium: a change of a table's row a record, in an envelope."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet, OptionValues
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._contracts import RecordDecoder, RecordFormat
from penstock.serialization.formats._debezium._decoder import DebeziumJsonDecoder
from penstock.serialization.formats._debezium._encodings import Encodings
from penstock.serialization.formats._debezium._envelope import check_envelope, envelope_type
from penstock.serialization.formats._debezium._rows import EnvelopeRows
from penstock.serialization.formats._options import DEBEZIUM_OPTIONS
from penstock.serialization.formats._schema_registry import uses_registry

__all__ = ["DebeziumFormat"]


class DebeziumFormat(RecordFormat):
    """Envelopes in JSON, or with ``schema.registry.url`` in Avro, as a struct: ``op``, ``before``, ``after``,
    ``source``, ``ts``, ``transaction``, ``message`` and ``unavailable``.

    ``before`` and ``after`` have the columns of the table. Their types say what Debezium's encodings are turned
    into. What these mean comes from the schema in the record or in the registry, or else from the options; nothing is
    guessed.
    Marks of transactions have no ``op``. A tombstone is a null.
    """

    options: ClassVar[OptionSet] = DEBEZIUM_OPTIONS

    def column_type(self, declared: pa.DataType) -> pa.DataType:
        """Returns the envelope's type: ``declared`` are the columns of the table."""
        if not pa.types.is_struct(declared) or not declared.num_fields:
            raise BadConfigurationError(
                f"option 'schema': format debezium needs the table's columns, not {shown_type(declared)}"
            )
        return envelope_type(declared)

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        """``type`` is made of the envelope's fields. Without it, the registry says which columns the table has."""
        if uses_registry(options):
            from penstock.serialization.formats._debezium._avro import create_avro_decoder

            return create_avro_decoder(options, type)
        if type is None:
            raise BadConfigurationError(
                "format debezium needs the table's columns in the option 'schema', such as: id long, name string"
            )
        check_envelope(type)
        rows = EnvelopeRows(type, options["timeZone"], options["unavailable.value.placeholder"])
        return DebeziumJsonDecoder(rows, Encodings(options))
