"""A table that is larger than what a task may hold: the benchmark's own case, with fewer rows."""

from __future__ import annotations

import pytest

from benchmarks import cassandra_large
from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock.testing._memory import peak_growth_bytes
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev import cassandra_server
from suite.sources import SourceHarness


@pytest.mark.exhaustive(
    "a million rows in a process of their own; test_reads_with_the_random_partitioner and the kit's bounded memory stay"
)
@pytest.mark.timeout(900)
def test_memory_and_splits_are_what_was_asked_for(tmp_path):
    with cassandra_server(tmp_path, quick_start=True) as server:
        host, _, port = server.address.rpartition(":")
        with Client(ConnectionSettings((host,), int(port), request_timeout_s=120)) as client:
            client.rows("create keyspace large with replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            memory, sizes = cassandra_large.measure(server, client, "large", rows=1_000_000, split_mb=4)
    (peak_mb,) = memory.values["penstock"]
    assert peak_mb < 300
    times = sizes.values["penstock"]
    assert len(times) > 5
    assert min(times) >= 0.5 and max(times) <= 2, times


@pytest.mark.exhaustive("hundreds of megabytes; the kit's bounded memory stays, on small ones")
@pytest.mark.parametrize("small", [0, 20_000], ids=["large", "small-and-large"])
def test_rows_of_megabytes_are_read_in_small_pages(cassandra, small):
    """Pages are about 4 MB, except where rows become larger: those are what the rows before them take by then."""
    table = cassandra.table("k int primary key, v blob")
    cassandra.insert(table, "k, v", ((k, b"small") for k in range(small)))
    for k in range(60):
        cassandra.insert(table, "k, v", [(-k - 1, bytes([k]) * (5 << 20))])
    connector = CassandraConnector()
    options = {**cassandra.options, "table": table, "splits": "1"} | ({"pageRows": "8"} if small else {})
    source = connector.create_source(connector.source_options.parse(options, owner="source"))
    found = []

    def read():
        splits = SourceHarness(connector, options).list_splits()
        for batch in SourceReader(source, ReaderContext(source.fixed_schema(), Metrics())).read(splits):
            found.extend(len(value) for value in batch["v"].to_pylist())

    growth = peak_growth_bytes(read)
    assert sorted(found) == [5] * small + [5 << 20] * 60
    assert growth < 250 << 20, growth >> 20
