"""Each use of the connector, batches, streams and look-ups, reads each option that is declared to take effect in it."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from option_tests.declared import check_uses
from penstock.errors import PenstockError
from penstock.options import OF_THE_ENGINE
from penstock_cassandra import Lookup
from penstock_cassandra.client import _client
from penstock_cassandra.options import LOOKUP_OPTIONS
from suite.option_cases import cases
from suite.option_reads import differences, reads
from suite.option_uses import OptionUses, Scene

#: Columns beside the row's own, by the option that names them.
MORE = {
    "ttlColumn": (pa.int32(), [60, 60]),
    "timestampColumn": (pa.int64(), [1, 2]),
    "deleteColumn": (pa.bool_(), [False, True]),
    "operationColumn": (pa.string(), ["c", "d"]),
    "orderColumn": (pa.int64(), [1, 2]),
    "unavailableColumn": (pa.list_(pa.string()), [None, ["n"]]),
}
#: A connection is shared by all that have the same settings, and opened once: each scene has settings of its own.
NUMBERS = itertools.count(60_001)


@pytest.fixture
def scenes(cassandra):
    """Functions that make the scenes of both sides, and of a look-up, on tables of their own."""

    def on_server(option, given, table):
        texts = {**cassandra.options, **given}
        for name, real in (("keyspace", cassandra.keyspace), ("table", table), ("host", "localhost")):
            if name in given:
                texts[name] = real
        if option.name == "port":
            texts["port"] = cassandra.options["port"]
        own = "connectTimeout" if option.name == "requestTimeout" else "requestTimeout"
        return {**texts, "retryTimeout": "0", own: f"{next(NUMBERS)}ms"}

    def forget_clients():
        """A restart is another process, which opens connections of its own."""
        for settings in _client._shared.keys():  # noqa: SIM118 - it is no dictionary
            if settings != cassandra.settings:
                _client._shared.forget(settings)

    def of_source(option, given):
        table = cassandra.table("k int, c int, x int, primary key (k, c)")
        cassandra.insert(table, "k, c, x", [(n, n, n) for n in range(20)])
        texts = on_server(option, given, table)
        if option.name == "query":
            texts["query"] = f"SELECT k FROM {cassandra.keyspace}.{table}"
        if option.name == "where":
            texts["where"] = "c > 1"
        if option.name not in ("splits", "maxSplitSize"):
            texts |= {"splits": "16", "maxSplitsPerTrigger": "1"}
        return Scene(texts, add=forget_clients)

    def of_sink(option, given):
        table = cassandra.table("k int primary key, n int")
        texts = on_server(option, given, table)
        if option.name == "statement":
            texts["statement"] = f"INSERT INTO {cassandra.keyspace}.{table} (k, n) VALUES (?, ?)"
        if "checkpointKeyspace" in texts:
            texts["checkpointKeyspace"] = cassandra.keyspace
        columns = {"k": pa.array([1, 2], pa.int32()), "n": pa.array([1, None], pa.int32())}
        for name in MORE.keys() & texts.keys():
            texts[name] = name.lower()
            columns[name.lower()] = pa.array(MORE[name][1], MORE[name][0])
        rows = pa.record_batch(columns)
        return Scene(texts, rows.schema, (rows,))

    return {"source": of_source, "sink": of_sink, "lookup": of_source}


SIDES = ("source", "sink")
#: Of each side options that all uses read.
SOME = {"source": ("pageBytes",), "sink": ("nulls",)}


def of_lookup(scene_of):
    """Returns, for each option of a look-up, whether one reads it."""
    known = cases("cassandra source")
    found = {}
    for option in LOOKUP_OPTIONS:
        if option.name in OF_THE_ENGINE or not known.texts(option):
            continue
        given = scene_of(option, known.least(option, "batch")).texts
        texts = {name: text for name, text in given.items() if LOOKUP_OPTIONS.find(name)}
        others = [{**texts, option.name: text} for _, text in known.texts(option) if text != texts[option.name]]
        rest = {name: text for name, text in texts.items() if name != option.name}
        other = rest if option.name not in ("keyspace", "table") else others[0]
        looked = Lookup(texts, ["k"], ["x"])
        with reads(differences(looked, Lookup(other, ["k"], ["x"]))) as (read, _):
            try:
                looked.look_up(pa.record_batch({"k": pa.array([1], pa.int32())}))
            except PenstockError as error:
                found[option.name] = f"nothing reads it: {error}"
        if read:
            found[option.name] = "read"
        found.setdefault(option.name, "nothing reads it")
    return {"look up": found}


@pytest.mark.parametrize("side", SIDES)
def test_some_uses_read_some_options(tmp_path, scenes, side):
    found = OptionUses(f"cassandra {side}", tmp_path, scenes[side]).found(*SOME[side])
    assert {said for options in found.values() for said in options.values()} == {"read"}


@pytest.mark.exhaustive("a minute; test_some_uses_read_some_options is the witness")
@pytest.mark.budget(120)
@pytest.mark.parametrize("side", SIDES)
def test_every_use_reads_every_option(tmp_path, scenes, side):
    """Or there is a reason in the table: ``scripts/options --uses`` prints it. ``REWRITE_USES=1`` renews the table."""
    check_uses(f"cassandra {side}", OptionUses(f"cassandra {side}", tmp_path, scenes[side]).found())


@pytest.mark.budget(30)
def test_a_look_up_reads_every_option(scenes):
    check_uses("cassandra lookup", of_lookup(scenes["lookup"]))
