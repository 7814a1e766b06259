"""A table that is larger than what a task may hold: the benchmark's own case, with fewer rows."""

from __future__ import annotations

import pytest

from benchmarks import cassandra_large
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev import cassandra_server


@pytest.mark.exhaustive(
    "a million rows in a process of their own; test_the_random_partitioner and the kit's bounded memory stay"
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
