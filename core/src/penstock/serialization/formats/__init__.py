"""Record formats: binary values (of Kafka records, say) to typed columns and back, by the name of the format.

Built in are ``binary``, ``string``, ``json``, ``avro`` and ``protobuf`` (the last three with or without a schema
registry), and ``debezium`` (envelopes of changes, which are only read).
"""

from penstock.serialization.formats._contracts import Decoded, RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._options import FORMAT_OPTIONS
from penstock.serialization.formats._registry import create_decoder, create_encoder, find_format
from penstock.serialization.formats._settings import FormatSettings, format_options

__all__ = [
    "FORMAT_OPTIONS",
    "Decoded",
    "FormatSettings",
    "RecordDecoder",
    "RecordEncoder",
    "RecordFormat",
    "create_decoder",
    "create_encoder",
    "find_format",
    "format_options",
]
