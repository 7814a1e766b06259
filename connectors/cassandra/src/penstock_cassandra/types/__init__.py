"""CQL's types and Arrow's: what becomes what, and the bytes of both."""

from penstock_cassandra.types._arrow import arrow_type, check_readable, check_writable
from penstock_cassandra.types._cql import CqlType, cql_type_of
from penstock_cassandra.types._decode import Cells, check_count, decode, decode_page
from penstock_cassandra.types._encode import NULL, UNSET, encode, prefixed
from penstock_cassandra.types._keys import comparable, key_cells

__all__ = [
    "NULL",
    "UNSET",
    "Cells",
    "CqlType",
    "arrow_type",
    "check_count",
    "check_readable",
    "check_writable",
    "comparable",
    "cql_type_of",
    "decode",
    "decode_page",
    "encode",
    "key_cells",
    "prefixed",
]
