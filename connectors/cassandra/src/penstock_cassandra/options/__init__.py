"""What users may set, declared as data, and the checked values made from it."""

from penstock_cassandra.options._columns import column, columns_of
from penstock_cassandra.options._connection import connection_settings
from penstock_cassandra.options._declared import LOOKUP_OPTIONS, SINK_OPTIONS, SOURCE_OPTIONS
from penstock_cassandra.options._lookup import LookupOptions
from penstock_cassandra.options._sink import SinkOptions
from penstock_cassandra.options._source import SourceOptions

__all__ = [
    "LOOKUP_OPTIONS",
    "SINK_OPTIONS",
    "SOURCE_OPTIONS",
    "LookupOptions",
    "SinkOptions",
    "SourceOptions",
    "column",
    "columns_of",
    "connection_settings",
]
