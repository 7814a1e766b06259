"""The numbers that ORC's specification gives to types, streams, encodings, and the fields of its messages.

Source: ORC Specification v1 and its ``orc_proto.proto``.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "MAGIC",
    "PROLEPTIC_GREGORIAN",
    "SPARK_NTZ",
    "SPARK_TYPE",
    "WRITER_IN_CPP",
    "AttributeFields",
    "Codec",
    "Encoding",
    "EncodingFields",
    "Footer",
    "Kind",
    "Postscript",
    "Statistics",
    "StreamFields",
    "StreamKind",
    "StripeFields",
    "StripeFooter",
    "TypeFields",
]

MAGIC = b"ORC"
#: The value of the field CALENDAR in a file whose days are Gregorian throughout.
PROLEPTIC_GREGORIAN = 2
#: The writer that is Apache ORC's library in C++.
WRITER_IN_CPP = 1
#: Spark's note about a column's type in Spark, where ORC's says less.
SPARK_TYPE = "spark.sql.catalyst.type"
#: What it says of a column of whole numbers: microseconds since 1970, by a clock in no zone.
SPARK_NTZ = "timestamp_ntz"


class Kind(IntEnum):
    """The types of columns."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


class Codec(IntEnum):
    """How streams and metadata are compressed."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5


class StreamKind(IntEnum):
    """The streams of a column that hold data; those of higher numbers are indexes."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5


class Encoding(IntEnum):
    """How the values of a column are encoded. Version 2 has other runs of numbers."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


class Postscript(IntEnum):
    """Fields of a file's last message."""

    FOOTER_LENGTH = 1
    COMPRESSION = 2
    BLOCK_SIZE = 3
    VERSION = 4
    METADATA_LENGTH = 5
    WRITER_VERSION = 6
    MAGIC = 8000


class Footer(IntEnum):
    """Fields of a file's footer."""

    HEADER_LENGTH = 1
    CONTENT_LENGTH = 2
    STRIPES = 3
    TYPES = 4
    ROWS = 6
    STATISTICS = 7
    ROW_INDEX_STRIDE = 8
    WRITER = 9
    CALENDAR = 11


class StripeFields(IntEnum):
    """Fields of what the footer says about a stripe."""

    OFFSET = 1
    INDEX_LENGTH = 2
    DATA_LENGTH = 3
    FOOTER_LENGTH = 4
    ROWS = 5


class TypeFields(IntEnum):
    """Fields of a type."""

    KIND = 1
    SUBTYPES = 2
    NAMES = 3
    PRECISION = 5
    SCALE = 6
    ATTRIBUTES = 7


class AttributeFields(IntEnum):
    """Fields of a writer's note about a type."""

    KEY = 1
    VALUE = 2


class Statistics(IntEnum):
    """Fields of what the footer says about the values of a column."""

    VALUES = 1
    HAS_NULL = 10


class StripeFooter(IntEnum):
    """Fields of the footer of a stripe."""

    STREAMS = 1
    ENCODINGS = 2
    ZONE = 3


class EncodingFields(IntEnum):
    """Fields of what a stripe's footer says about a column."""

    KIND = 1
    WORDS = 2


class StreamFields(IntEnum):
    """Fields of what a stripe's footer says about a stream."""

    KIND = 1
    COLUMN = 2
    LENGTH = 3
