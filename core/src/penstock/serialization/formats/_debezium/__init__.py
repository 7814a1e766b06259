"""Change streams: Debezium's envelopes, in JSON and in Avro, as typed rows."""

from penstock.serialization.formats._debezium._format import DebeziumFormat

__all__ = ["DebeziumFormat"]
