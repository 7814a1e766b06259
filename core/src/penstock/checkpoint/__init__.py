"""A query's checkpoint: where it is, what its sink is, what Spark has planned, what can be done to it from outside."""

from penstock.checkpoint._batch_writes import chain_of_write, forget_write, is_remembered, remember_write
from penstock.checkpoint._commands import Finished, adopt, finish, open_pieces, resolve, restore_offsets, take_over
from penstock.checkpoint._damage import damage_of
from penstock.checkpoint._groups import Prepared, load_group, members_of, options_by_member, remember_group
from penstock.checkpoint._identity import CheckpointIdentity, open_identity
from penstock.checkpoint._left_open import LeftOpen, left_open
from penstock.checkpoint._named import BatchInFunction, check_sink_name, home_of, named_sinks, names_of
from penstock.checkpoint._queries import (
    StoredPart,
    StoredQuery,
    open_stored_queries,
    open_stored_query,
    stored_sink_of,
)
from penstock.checkpoint._spark_log import SparkLog
from penstock.checkpoint._stored import StoredSink, chain_of, query_id_of, read_form, remember_sink, sink_path

__all__ = [
    "BatchInFunction",
    "Finished",
    "CheckpointIdentity",
    "LeftOpen",
    "Prepared",
    "SparkLog",
    "StoredPart",
    "StoredQuery",
    "StoredSink",
    "adopt",
    "chain_of",
    "chain_of_write",
    "check_sink_name",
    "damage_of",
    "finish",
    "forget_write",
    "home_of",
    "is_remembered",
    "left_open",
    "load_group",
    "members_of",
    "named_sinks",
    "names_of",
    "open_pieces",
    "open_identity",
    "open_stored_queries",
    "open_stored_query",
    "options_by_member",
    "query_id_of",
    "read_form",
    "remember_group",
    "remember_sink",
    "remember_write",
    "resolve",
    "restore_offsets",
    "sink_path",
    "stored_sink_of",
    "take_over",
]
