"""Every source to every sink, in rounds of four streams, under kills at random moments of a seed that is told."""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from functools import partial
from pathlib import Path

import pytest

from penstock.dev import open_server
from penstock_kafka.dev import KafkaToolbox, kafka_server
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox

sys.path.insert(0, str(Path(__file__).parent / "matrix"))

from killing import Round, kill_driver, kill_executor, kill_worker, streams_of
from systems import CassandraSystem, FileSystem, KafkaSystem, PravegaSystem

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROWS = 500


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One that may be killed."""
    with kafka_server(tmp_path_factory.mktemp("kafka"), quick_start=True) as server:
        yield server


@pytest.fixture(scope="module")
def systems(tmp_path_factory, broker, cassandra):
    with open_server(PravegaDevServer(quick_start=True), tmp_path_factory.mktemp("pravega")) as address:
        toolbox = PravegaToolbox(address, f"matrix-{uuid.uuid4().hex[:8]}")
        yield [
            FileSystem(tmp_path_factory.mktemp("files")),
            KafkaSystem(KafkaToolbox(broker.address)),
            CassandraSystem(cassandra.job["address"]),
            PravegaSystem(toolbox),
        ]
        toolbox.close()


@pytest.fixture
def dice():
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(10**6)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def kill_broker(broker):
    def kill(_, dice):
        broker.kill()
        time.sleep(dice.uniform(0, 2))
        broker.start()
        return "broker"

    return kill


@pytest.mark.parametrize("shift", range(4))
def test_nothing_is_lost_or_doubled(driver, systems, kill_broker, tmp_path, dice, shift):
    matrix = Round(streams_of(systems, shift), tmp_path, driver)
    matrix.run(dice, [kill_driver, kill_worker, kill_broker], ROWS)
    print(f"killed: {matrix.killed}")
    assert matrix.finish(ROWS) == ""


def test_nothing_is_lost_where_rows_may_come_again(driver, systems, kill_broker, tmp_path, dice):
    matrix = Round(streams_of(systems, dice.randrange(4), "at-least-once"), tmp_path, driver)
    matrix.run(dice, [kill_driver, kill_worker, kill_broker], ROWS)
    print(f"killed: {matrix.killed}, repeated: {[stream.outcome().repeated.total() for stream in matrix.streams]}")
    assert matrix.finish(ROWS) == ""


def test_on_a_cluster_that_loses_executors(driver, systems, cluster, tmp_path, dice):
    matrix = Round(streams_of(systems, dice.randrange(4)), tmp_path, driver, master=cluster.url)
    matrix.run(dice, [kill_driver, partial(kill_executor, cluster), partial(kill_executor, cluster)], ROWS)
    print(f"killed: {matrix.killed}")
    assert matrix.finish(ROWS) == ""
