"""Every source to every sink, in one driver, under kills: one of each kind at telling moments; and, in rounds of four
streams, at random moments. The tests print the seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from functools import partial

import pytest

from harness.cluster import SPECULATION
from harness.kills import kill_driver, kill_executor, kill_server, kill_worker
from harness.oracle import check_speculated
from matrix.streams import Round, Stream, streams_of
from matrix.systems import CassandraSystem, FileSystem, KafkaSystem, PravegaSystem, row_from_spark
from penstock_kafka.dev import KafkaToolbox

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROWS = 500
PROTOCOL = "penstock._commit._two_phase:TwoPhaseCommit"
DELIVERING = "penstock_kafka.sink._writer:KafkaAtLeastOnceWriter.flush:after:3"
#: Of the second batch of each query: what its tasks did is there, and nothing is decided.
UNDECIDED = [f"{PROTOCOL}.commit:before:2:_context.query_id", DELIVERING]
#: And here it is decided, and nothing of it is published.
UNPUBLISHED = [f"{PROTOCOL}._decide:after:2:_context.query_id", DELIVERING]
#: In a task, for each kind of sink of the first four streams below, and for those of the others.
WRITING = [
    "penstock_filesystem.sink._writer:FileSystemWriter.write:after:2",
    "penstock_kafka.sink._writer:KafkaTransactionalWriter.write:after:1",
    "penstock_cassandra.sink._writer:CassandraUpserter.upsert:after:2",
    "penstock_pravega.sink._writer:PravegaTransactionalWriter.write:after:2",
]
WRITING_OTHERS = [
    "penstock.sink._write_ahead:_StagingWriter.write:after:2",
    "penstock_kafka.sink._writer:KafkaAtLeastOnceWriter.write:after:2",
]


class S3Files(FileSystem):
    """Parquet objects, by multipart uploads."""

    name = "s3"

    def __init__(self, bucket):
        self._bucket = bucket

    def new_place(self):
        return f"s3://{self._bucket.name}/out"

    def sink(self, place, delivery):
        options = {"path": place, "format": "parquet", "s3.endpoint": self._bucket.endpoint, "maxPartSize": "4kb"}
        return {"format": "penstock.filesystem", "options": options, "columns": ["*"]}

    def rows(self, place):
        tables = self._bucket.tables(["id", "at", "note"])
        return Counter(row_from_spark(row) for table in tables for row in table.to_pylist())


class WriteAheadCassandra(CassandraSystem):
    """Every row is added to a list, so that one that is sent again shows."""

    name = "write-ahead"
    deliveries = ("write-ahead",)

    def new_place(self):
        return self._toolbox.table("id bigint primary key, seen list<text>")

    def sink(self, place, delivery):
        statement = f"update {self._toolbox.keyspace}.{place} set seen = seen + ? where id = ?"
        options = {"statement": statement, "delivery": delivery, **self._toolbox.options}
        return {
            "format": "penstock.cassandra",
            "options": options,
            "columns": ["array(concat(unix_seconds(at), ' ', note)) as seen", "id"],
        }

    def rows(self, place):
        rows = self._toolbox.rows(place, "id, seen")
        split = [(number, text.partition(" ")) for number, seen in rows for text in seen]
        return Counter((number, int(at), note) for number, (at, _, note) in split)


@pytest.fixture(scope="module")
def systems(tmp_path_factory, broker, cassandra, pravega):
    return [
        FileSystem(tmp_path_factory.mktemp("files"), bucketAssigner="basePath", maxPartSize="4kb"),
        KafkaSystem(KafkaToolbox(broker.address)),
        CassandraSystem(cassandra),
        PravegaSystem(pravega),
    ]


ALL_STREAMS = pytest.mark.exhaustive("more streams in the same drivers; a sink of each connector is the witness")


@pytest.mark.budget(90)
@pytest.mark.parametrize("count", [4, pytest.param(7, marks=ALL_STREAMS)])
def test_one_sleeps_one_dies_and_one_loses_tasks(driver, systems, cassandra, bucket, tmp_path, count):
    """Three drivers on the same checkpoints, with a source and a sink of each connector.

    The first one falls asleep before its decision. The second one continues, and is killed between decision and
    publishing. In the third one a task of each sink loses its process. At last the first one wakes up, and must not do
    anything.
    """
    files, kafka, tables, pravega = systems
    streams = [
        Stream.between(files, kafka, windows=True),
        Stream.between(kafka, tables),
        Stream.between(tables, pravega),
        Stream.between(pravega, files, distinct=True),
        Stream.between(kafka, S3Files(bucket)),
        Stream.between(files, WriteAheadCassandra(cassandra)),
        Stream.between(pravega, kafka, "at-least-once"),
    ][:count]
    matrix = Round(streams, tmp_path, driver)
    matrix.feed(ROWS)

    sleeper = matrix.start(fault=";".join(UNDECIDED), scope="worker", action="stop")
    sleeper.wait_for_hits(len(streams))
    sleeper.stop()

    victim = matrix.start(fault=";".join(UNPUBLISHED), scope="worker", action="stop")
    victim.wait_for_hits(len(streams))
    victim.kill()
    assert not any(stream.outcome().repeated for stream in streams if stream.delivery != "at-least-once")

    matrix.feed(ROWS // 2)  # enough to close more windows
    writing = WRITING if count == 4 else WRITING + WRITING_OTHERS
    last = matrix.start(fault=";".join(writing), scope="worker")
    last.wait_for_success()
    assert last.was_hit()
    assert matrix.problems() == ""

    sleeper.resume()
    sleeper.wait_for_failure()
    said = sleeper.output().splitlines()
    for stream in streams:
        refused = [line for line in said if line.startswith(f"{stream.name} failed: ")]
        if stream.delivery != "at-least-once":
            assert "another run has carried this checkpoint on" in "".join(refused), f"{stream.name}: {refused}"
    assert matrix.problems() == ""


@pytest.mark.budget(60)
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=ALL_STREAMS)])
def test_a_cluster_has_stragglers_and_loses_executors(driver, systems, cluster, tmp_path, count):
    """In the first batches a task is tried twice at a time; later, there is a SIGKILL to an executor."""
    files, kafka, tables, pravega = systems
    streams = [
        Stream.between(kafka, files, straggler=True),
        Stream.between(files, kafka, straggler=True),
        Stream.between(kafka, tables),
        Stream.between(kafka, pravega),
    ][:count]
    matrix = Round(streams, tmp_path, driver, master=cluster.url, **SPECULATION)
    matrix.feed(2 * ROWS)  # five batches
    run = matrix.start()
    for stream in streams[1::2]:  # it and the previous one are at work
        cluster.kill_executor(run, lambda stream=stream: matrix.commits(stream) > 0)
    run.wait_for_success()
    for stream in streams[:2]:
        check_speculated(tmp_path / f"attempts-{stream.name}")
    assert matrix.problems() == ""


# --- at random moments ------------------------------------------------------------------------------------------------


@pytest.fixture
def dice():
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(10**6)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def kill_broker(broker):
    return partial(kill_server, broker, "broker")


at_random_moments = pytest.mark.exhaustive(
    "kills at random moments; test_one_sleeps_one_dies_and_one_loses_tasks has them at telling ones"
)


@at_random_moments
@pytest.mark.parametrize("shift", range(4))
def test_nothing_is_lost_or_doubled(driver, systems, kill_broker, tmp_path, dice, shift):
    matrix = Round(streams_of(systems, shift), tmp_path, driver)
    matrix.run(dice, [kill_driver, kill_worker, kill_broker], ROWS)
    print(f"killed: {matrix.killed}")
    assert matrix.finish(ROWS) == ""


@at_random_moments
def test_nothing_is_lost_where_rows_may_come_again(driver, systems, kill_broker, tmp_path, dice):
    matrix = Round(streams_of(systems, dice.randrange(4), "at-least-once"), tmp_path, driver)
    matrix.run(dice, [kill_driver, kill_worker, kill_broker], ROWS)
    print(f"killed: {matrix.killed}, repeated: {[stream.outcome().repeated.total() for stream in matrix.streams]}")
    assert matrix.finish(ROWS) == ""


@at_random_moments
def test_on_a_cluster_that_loses_executors(driver, systems, cluster, tmp_path, dice):
    matrix = Round(streams_of(systems, dice.randrange(4)), tmp_path, driver, master=cluster.url)
    matrix.run(dice, [kill_driver, partial(kill_executor, cluster), partial(kill_executor, cluster)], ROWS)
    print(f"killed: {matrix.killed}")
    assert matrix.finish(ROWS) == ""
