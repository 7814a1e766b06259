"""Reading without Spark: splits, sizes, queries and their refusals, pages, stored forms."""

from __future__ import annotations

import itertools
import json
import logging
import random
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cli._explain import explain_read, show_read
from penstock.errors import BadConfigurationError, RetriableError
from penstock.metrics import Metrics
from penstock.retry import RetryPolicy
from penstock.source import ReaderContext
from penstock.spark import StreamReader
from penstock.spark._coordinator import Coordinator
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import Client, _throttle, shared_client
from penstock_cassandra.source import TableState, TokenRange, TokenSplit
from penstock_cassandra.source._cql import parse_select, split_conditions
from penstock_cassandra.source._reader import scans_of
from penstock_cassandra.source._ring import Ring, partitioner_of
from penstock_cassandra.source._split import SPLIT_SERIALIZER, STATE_SERIALIZER
from suite.sources import read_splits

GOLDEN = Path(__file__).parent / "golden"


def source_of(cassandra, **options):
    connector = CassandraConnector()
    given = {**cassandra.options, **{name: str(value) for name, value in options.items()}}
    return connector.create_source(connector.source_options.parse(given, owner="source penstock.cassandra"))


def splits_of(source, parallelism=2):
    return list(source.list_splits(Coordinator(parallelism=parallelism)))


def read(source, splits=None, schema=None, metrics=None):
    splits = splits_of(source) if splits is None else splits
    return [row for batch in read_splits(source, splits, schema, metrics) for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def orders(cassandra):
    """200 partitions of 5 rows."""
    table = cassandra.table("shop int, number int, note text, primary key (shop, number)")
    insert = f"insert into {cassandra.keyspace}.{table} (shop, number, note) values (?, ?, ?)"
    for shop in range(200):
        for number in range(5):
            cassandra.cql(insert, shop, number, f"{shop}-{number}")
    return table


ROWS = sorted((shop, number) for shop in range(200) for number in range(5))


def keys(rows):
    return sorted((row["shop"], row["number"]) for row in rows)


def test_what_another_client_has_just_made_is_found(cassandra):
    shared_client(source_of(cassandra, table="none").options.connection)  # open when the keyspace is made
    keyspace = f"{cassandra.keyspace}_new"
    other = Client(replace(cassandra.settings, request_timeout_s=100))
    other.rows(f"create keyspace {keyspace} with replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    other.rows(f"create table {keyspace}.t (id int primary key)")
    other.close()
    assert read(source_of(cassandra, keyspace=keyspace, table="t")) == []
    cassandra.cql(f"drop keyspace {keyspace}")


@pytest.mark.parametrize("splits", [1, 2, 7, 64])
def test_every_row_is_in_one_split(cassandra, orders, splits):
    source = source_of(cassandra, table=orders, splits=splits)
    found = splits_of(source)
    assert len(found) == splits
    each = [keys(read(source, [split])) for split in found]
    assert sorted(row for rows in each for row in rows) == ROWS
    assert splits == 1 or max(map(len, each)) < 1000


def test_a_stream_continues_with_the_splits_that_it_began_with(cassandra, orders, caplog):
    offset, rows = None, []
    for splits in (3, 9, 9):
        connector = CassandraConnector()
        given = {**cassandra.options, "table": orders, "splits": str(splits), "maxSplitsPerTrigger": "1"}
        options = connector.source_options.parse(given, owner="source penstock.cassandra")
        source = connector.create_source(options)
        reader = StreamReader(source, source.fixed_schema(), 2, None, options, "source penstock.cassandra")
        start = offset or reader.initialOffset()
        offset = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
        rows += [row for one in reader.partitions(start, offset) for row in read(source, one.splits)]
        reader.stop()
    assert offset["final"] and len(rows) == 1000 == len({tuple(row.items()) for row in rows})
    assert caplog.text.count("option 'splits' was '3' before and is '9' now") == 1


def test_without_estimates_there_are_two_splits_for_each_slot(cassandra, orders):
    assert len(splits_of(source_of(cassandra, table=orders), parallelism=3)) == 6


def test_pages_are_small_and_rows_are_all_there(cassandra, orders):
    metrics = Metrics()
    source = source_of(cassandra, table=orders, splits=2, pageRows=7)
    assert keys(read(source, metrics=metrics)) == ROWS
    assert metrics.snapshot()["pages_read"] > 1000 / 7


class Requests:
    """What a reader's client was asked: how many pages at once, at most. ``failing``: how many of the first fail."""

    def __init__(self, monkeypatch, failing=0):
        self.most, self._now, self._failing = 0, 0, failing
        execute, page = Client.execute_async, Client.page

        def counting(client, *args, **kwargs):
            self._now += 1
            self.most = max(self.most, self._now)
            return execute(client, *args, **kwargs)

        def counted(client, future, what):
            self._now -= 1
            found = page(client, future, what)
            if self._failing:
                self._failing -= 1
                raise RetriableError("the node went away")
            return found

        monkeypatch.setattr(Client, "execute_async", counting)
        monkeypatch.setattr(Client, "page", counted)


@pytest.mark.parametrize("failing", [0, 5])
@pytest.mark.parametrize(("splits", "most"), [(1, 1), (1, 2), (3, 2), (1, 7)])
def test_pages_of_several_ranges_are_in_flight(cassandra, orders, monkeypatch, splits, most, failing):
    """Each row comes once, though every page may fail: another one has come meanwhile."""
    source = source_of(cassandra, table=orders, splits=splits, pageRows=9, maxInFlight=most)
    found = splits_of(source)
    requests = Requests(monkeypatch, failing)
    rows = [row for batch in read_splits(source, found, retry=RetryPolicy(60)) for row in batch.to_pylist()]
    assert keys(rows) == ROWS and requests.most == most
    for shop in range(200):
        assert [row["number"] for row in rows if row["shop"] == shop] == list(range(5)), "a partition keeps its order"


@given(
    at_once=st.integers(1, 20),
    ends=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=9, unique=True).map(sorted),
)
@example(at_once=20, ends=[-(2**63), 2**63 - 1])
@example(at_once=20, ends=[4, 7])
def test_a_split_is_cut_into_ranges_that_cover_it_once(at_once, ends):
    ranges = tuple(TokenRange(after, until, (f"h{after}",)) for after, until in itertools.pairwise(ends))
    scans = [scan.range for scan in scans_of(TokenSplit(0, ranges, 1), at_once)]
    assert scans[0].after == ends[0] and scans[-1].until == ends[-1]
    assert all(one.until == other.after for one, other in itertools.pairwise(scans))
    assert all(one.after < one.until for one in scans)
    assert len(scans) >= min(at_once, ends[-1] - ends[0]) or len(scans) >= len(ranges)
    for scan in scans:
        (whole,) = [one for one in ranges if one.after <= scan.after and scan.until <= one.until]
        assert scan.replicas == whole.replicas


def test_columns_are_those_of_the_schema(cassandra, orders):
    source = source_of(cassandra, table=orders, splits=3)
    schema = pa.schema([("note", pa.string())])
    assert sorted(row["note"] for row in read(source, schema=schema)) == sorted(f"{a}-{b}" for a, b in ROWS)
    assert source.fixed_schema().names == ["shop", "number", "note"]


def test_conditions(cassandra, orders, caplog):
    with caplog.at_level(logging.WARNING, "penstock.cassandra"):
        one = source_of(cassandra, table=orders, where="shop = 7 and number > 2", splits=5)
        assert keys(read(one)) == [(7, 3), (7, 4)]
        assert len(splits_of(one)) == 1 and "full scan" not in caplog.text
        many = source_of(cassandra, table=orders, where="number = 3", splits=5)
        assert keys(read(many)) == [(shop, 3) for shop in range(200)]
    assert "full scan" in caplog.text and "5 splits" in caplog.text


def test_queries(cassandra, orders):
    name = f"{cassandra.keyspace}.{orders}"
    query = f"select note as n, shop, token(shop) as t, 'x' || 1 from {name}"
    with pytest.raises(BadConfigurationError):
        read(source_of(cassandra, query=query))
    query = (
        f"SELECT note AS n, shop, writetime(note) FROM {name} WHERE number >= 3 PER PARTITION LIMIT 1 ALLOW FILTERING;"
    )
    rows = read(source_of(cassandra, query=query, splits=4))
    assert sorted(row["shop"] for row in rows) == list(range(200)) and all(row["n"].endswith("-3") for row in rows)
    assert keys(read(source_of(cassandra, query=f"select * from {name} where shop = 5", splits=4))) == ROWS[25:30]


REFUSED = {
    "select count(*) from {t}": "count\\(\\) is an aggregate",
    "select max(number) from {t}": "aggregate",
    "select distinct shop from {t}": "DISTINCT",
    "select json * from {t}": "JSON",
    "select * from {t} limit 5": "LIMIT would be applied to each split",
    "select * from {t} where shop = 1 order by number": "ORDER BY",
    "select shop, note from {t} group by shop": "GROUP BY",
    "select * from {t} where shop in (1, 2)": "IN on the partition key",
    "select * from {t} where token(shop) > 5": "token",
    "select * from {t} where shop = ?": "place for a value",
    "select * from {t}; drop table {t}": "more than one statement",
    "delete from {t}": "does not begin with SELECT",
    "select * from nowhere.at_all": "no keyspace 'nowhere'",
    "select nothing from {t}": "nothing",
}


@pytest.mark.parametrize("query", REFUSED)
def test_queries_that_can_not_be_split_are_refused(cassandra, orders, query):
    source = source_of(cassandra, query=query.format(t=f"{cassandra.keyspace}.{orders}"))
    with pytest.raises(BadConfigurationError, match=REFUSED[query]):
        source.fixed_schema()


def test_words_in_texts_and_names_are_no_clauses():
    select = parse_select('select "limit", \'order by\' from "K"."group" where a = \'x limit 5\' and b IN (1, 2)', "")
    assert (select.keyspace, select.table) == ("K", "group")
    assert split_conditions(select.where) == [("a", "="), ("b", "IN")]
    assert select.cql("t > 1") == (
        'SELECT "limit" , \'order by\' FROM "K"."group" WHERE a = \'x limit 5\' AND b IN ( 1 , 2 ) AND t > 1'
    ).replace("AND b", "and b")


def test_names_that_need_quotes(cassandra):
    table = cassandra.table('"Shop Number" int primary key, "select" text')
    cassandra.cql(f'insert into {cassandra.keyspace}.{table} ("Shop Number", "select") values (1, \'x\')')
    assert read(source_of(cassandra, table=table)) == [{"Shop Number": 1, "select": "x"}]


def test_a_rate_limit_holds(cassandra, orders, monkeypatch):
    """By a clock that stands still but when it is moved."""
    now = 0.0
    monkeypatch.setattr(_throttle, "time", SimpleNamespace(monotonic=lambda: now))
    source = source_of(cassandra, table=orders, splits=1, maxRowsPerSecond=1000, pageRows=100, maxInFlight=1)
    schema = source.fixed_schema()
    source.validate_schema(schema)
    reader = source.create_reader(ReaderContext(schema, Metrics()))
    reader.handle_splits_changes(splits_of(source))

    def next_page():
        deadline = time.monotonic() + 60
        while not (fetched := reader.fetch()).records:
            assert time.monotonic() < deadline
        return fetched.records[0][1].count

    assert next_page() == 100
    for _ in range(9):
        now += 0.09
        assert [reader.fetch().records for _ in range(2)] == [[], []], "the clock stands still"
        now += 0.02
        assert next_page() == 100
    reader.close()


# --- the ring ---------------------------------------------------------------------------------------------------------


def ring(ends_and_hosts):
    hosts = {end: [SimpleNamespace(endpoint=host) for host in names] for end, names in ends_and_hosts}
    tokens = SimpleNamespace(
        ring=[SimpleNamespace(value=end) for end in sorted(hosts)],
        get_replicas=lambda keyspace, token: hosts[token.value],
    )
    return Ring(SimpleNamespace(token_map=tokens), "k")


@pytest.mark.parametrize("name", ["Murmur3Partitioner", "RandomPartitioner"])
@pytest.mark.parametrize("vnodes", [0, 1, 3, 500])
def test_pieces_cover_the_ring_once_and_know_their_replicas(name, vnodes):
    partitioner = partitioner_of(f"org.apache.cassandra.dht.{name}")
    random.seed(vnodes)
    low, high = partitioner.lowest + 1, partitioner.highest
    ends = sorted(random.sample(range(0, 10**6), vnodes))
    ends = [low + (high - low) * end // 10**6 for end in ends]
    owners = {end: [f"h{random.randrange(3)}"] for end in ends}
    pieces = [
        piece
        for number in range(10)
        for piece in ring(list(owners.items())).pieces(partitioner.cut(number, 10), partitioner.cut(number + 1, 10))
    ]
    assert pieces[0].after == partitioner.lowest and pieces[-1].until == partitioner.highest
    assert all(one.until == other.after for one, other in itertools.pairwise(pieces))
    for piece in pieces if ends else ():
        for token in (piece.after + 1, piece.until):
            # The first node at or above a token holds it; above the last, the first one.
            owner = owners[next((end for end in ends if end >= token), ends[0])]
            assert list(piece.replicas) == owner
    assert {len(partitioner.pack(token)) for token in (low, high)} <= {1, 8, 17}


def test_partitioners_without_numbers_are_refused():
    with pytest.raises(BadConfigurationError, match="ByteOrderedPartitioner"):
        partitioner_of("org.apache.cassandra.dht.ByteOrderedPartitioner")


# --- stored forms -----------------------------------------------------------------------------------------------------

SPLIT = TokenSplit(
    3, (TokenRange(-(2**63), 5, ("10.0.0.1", "10.0.0.2")), TokenRange(5, 2**63 - 1), TokenRange(-1, 2**127)), 1 << 26
)
STATE = TableState(4, 20, 1 << 26, "Murmur3Partitioner")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("name", "serializer", "value"),
    [("split", SPLIT_SERIALIZER, SPLIT), ("state", STATE_SERIALIZER, STATE)],
    ids=["split", "state"],
)
def test_stored_forms_open(name, serializer, value, version):
    stored = json.loads((GOLDEN / f"{name}-v{version}.json").read_text())
    value = replace(value, table_id="an id" if version > 1 else "")
    assert serializer.deserialize(version, json.dumps(stored).encode()) == value
    if version == serializer.version:
        assert json.loads(serializer.serialize(value)) == stored


def test_a_user_can_look_before_reading(cassandra, capsys):
    table = cassandra.table("shop int, number int, note text, tag text, primary key (shop, number)")
    cassandra.cql(f"create index on {cassandra.keyspace}.{table} (tag)")
    options = {**cassandra.options, "table": table, "splits": "6"}

    def explained(*conditions):
        return explain_read("cassandra", options, conditions)

    found = explained("tag = 'a''b'", "note = x", "number >= 3", "note is not null")
    assert [one["applied"] for one in found["filters"]] == [True, False, True, False]
    scan, filters = found["read"]
    assert f"full scan of {cassandra.keyspace}.{table}" in scan and "in 6 splits: SELECT" in scan
    assert "number\" >= 3 AND \"tag\" = 'a''b'" in scan
    assert "shop = (one partition, no scan); number from the first on" in filters and "tag = (indexed)" in filters
    (one,) = explained("shop = 1")["read"]
    assert one.startswith("one partition of")
    assert [column["name"] for column in found["columns"]] == ["shop", "number", "note", "tag"]
    wrong = {"nte = 1": "no column 'nte'.*note", "shop = x": "'x' is no int", "shop": "write COLUMN"}
    for condition, words in wrong.items():
        with pytest.raises(BadConfigurationError, match=words):
            explained(condition)
    assert show_read("cassandra", options, ["note = x"], as_json=False) == 0
    shown = capsys.readouterr().out
    assert "note = x: Spark applies it" in shown and "full scan" in shown
