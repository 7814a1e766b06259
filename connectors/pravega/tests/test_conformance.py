"""The conformance kit on a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite
from penstock_pravega import PravegaConnector
from penstock_pravega.client import Controller, TransactionState
from penstock_pravega.source._emitter import event_schema
from suite.away import standing_still
from suite.kit import (
    MANY_BATCHES,
    MANY_ROWS,
    OneCrashOfEachKind,
    TieredSparkSinkSuite,
    TieredSparkSourceSuite,
    by_default,
    only_columns_of,
)

IMPATIENT = {"requestTimeout": "1s"}  # its ZooKeeper ends sessions that are silent for some ten seconds


@pytest.fixture(autouse=True)
def recorded(monkeypatch):
    begin, opened = Controller.begin_transaction, []

    def recording(self, scope, stream, lease_ms):
        transaction, ranges = begin(self, scope, stream, lease_ms)
        opened.append((scope, stream, transaction))
        return transaction, ranges

    monkeypatch.setattr(Controller, "begin_transaction", recording)
    return opened


class TestSink(OneCrashOfEachKind):
    connector = PravegaConnector
    golden = Path(__file__).parent / "golden"
    schedules = 4
    schema = pa.schema([("routing_key", pa.string()), ("value", pa.string())])
    # Together 90 MB: enough to fill what may be in flight several times.
    many, most_memory_bytes = 80_000, 72 << 20

    test_many_batches_in_bounded_memory = by_default(
        SinkSuite.test_many_batches_in_bounded_memory, otherwise=MANY_BATCHES
    )

    test_dead_letters = by_default(
        SinkSuite.test_dead_letters, otherwise="many transactions; Kafka's and Cassandra's suites have it by default"
    )
    test_a_commit_costs_no_more_than_it_has_to = by_default(
        SinkSuite.test_a_commit_costs_no_more_than_it_has_to,
        otherwise="170 transactions; without a server, the files' suite has this case by default",
    )

    def batch(self, ids):
        return self.with_texts(ids, [f"row {i}" for i in ids])

    def with_texts(self, ids, texts):
        values = [json.dumps({"id": i, "text": text}) for i, text in zip(ids, texts, strict=True)]
        return pa.record_batch([[str(i) for i in ids], values], schema=self.schema)

    def id_of(self, row):
        return row["id"]

    @pytest.fixture
    def new_target(self, pravega, recorded):
        def make():
            stream = pravega.create_stream(segments=2)

            def read():
                return [json.loads(value) for value in pravega.values(stream)]

            def hidden():
                mine = [one for one in recorded if one[1] == stream]
                return [f"{one[2]:032x}" for one in mine if is_open(pravega, one)]

            def lose():
                for one in recorded:
                    if one[1] == stream and is_open(pravega, one):
                        pravega.controller.abort_transaction(*one)

            options = {
                "controller": pravega.address,
                "scope": pravega.scope,
                "stream": stream,
                "delivery": "exactly-once",
            }

            return SinkTarget(
                options,
                read,
                hidden,
                lose,
                prepare=only_columns_of(TestSink.schema),
                unreachable=standing_still(pravega.address),
                impatient=IMPATIENT,
            )

        return make


class TestSinkOnSpark(TieredSparkSinkSuite):
    connector, golden, schema, new_target = PravegaConnector, TestSink.golden, TestSink.schema, TestSink.new_target
    batch, with_texts, id_of = TestSink.batch, TestSink.with_texts, TestSink.id_of


def is_open(pravega, transaction):
    return pravega.controller.transaction_state(*transaction) is TransactionState.OPEN


class TestSource(SourceSuite):
    connector = PravegaConnector
    schema = event_schema(pa.binary())
    limit = ("maxRowsPerTrigger", "6", 6)
    test_many_rows_in_bounded_memory = by_default(SourceSuite.test_many_rows_in_bounded_memory, otherwise=MANY_ROWS)
    test_many_batches_in_bounded_memory = by_default(
        SourceSuite.test_many_batches_in_bounded_memory, otherwise=MANY_BATCHES
    )
    many = 100_000  # put there one by one

    def id_of(self, row):
        return int(row["value"])

    @pytest.fixture
    def origin(self, pravega):
        stream = pravega.create_stream(segments=2)
        options = {
            "controller": pravega.address,
            "scope": pravega.scope,
            "stream": stream,
            "startingStreamCut": "head",
            "discoveryInterval": "100ms",
        }
        return SourceOrigin(
            options,
            lambda ids: pravega.write(stream, [(str(i), str(i).encode()) for i in ids]),
            unreachable=standing_still(pravega.address),
            impatient=IMPATIENT,
        )


class TestSourceOnSpark(TieredSparkSourceSuite):
    connector, schema, origin, id_of = PravegaConnector, TestSource.schema, TestSource.origin, TestSource.id_of
