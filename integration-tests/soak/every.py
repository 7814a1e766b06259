"""Every source to every sink under random kills, for as long as asked for: ``scripts/soak every``.

Rounds of four streams, each system read once and written once, in turn: exactly once in one process, exactly once on a
standalone cluster with two executors, and at least once. In a round, one to four times, more rows are fed and the
driver with its JVM, an executor, one of Spark's Python processes, the Kafka broker or the Cassandra node is killed with
SIGKILL (a Pravega standalone server forgets everything when it ends, so it is not). What came out is compared with a
batch computation after each round, and added to ``integration-tests/matrix/seen.json`` and docs/guarantees.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from harness.cluster import Cluster
from harness.driver import Driver
from harness.kills import Victim, kill_driver, kill_executor, kill_server, kill_worker
from matrix.streams import Round, streams_of
from matrix.systems import CassandraSystem, FileSystem, KafkaSystem, PravegaSystem, System
from matrix.table import SYSTEMS, Seen
from penstock_cassandra.dev import cassandra_server
from penstock_kafka.dev import KafkaToolbox, kafka_server
from penstock_pravega.dev import PravegaToolbox, pravega_server
from suite.cassandra import CassandraToolbox

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guarantees.md"
ROWS = 1000
MOST_KILLS = 4
#: The delivery, and whether the round runs on a cluster. Each kind has four rounds, one for each shift.
KINDS = [("exactly-once", False), ("exactly-once", True), ("at-least-once", False)]


def main() -> int:
    """Runs the rounds. Returns 1 if rows were lost or duplicated."""
    parser = argparse.ArgumentParser(prog="scripts/soak every", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of what is killed, and when")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    print(f"--seed {seed}", flush=True)
    dice, seen = random.Random(seed), Seen()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as name, ExitStack() as stack:
        folder = Path(name)
        kafka = stack.enter_context(kafka_server(folder / "kafka"))
        cassandra = stack.enter_context(cassandra_server(folder / "cassandra"))
        pravega = PravegaToolbox(
            stack.enter_context(pravega_server(folder / "pravega")).address, f"soak-{uuid.uuid4().hex[:8]}"
        )
        stack.callback(pravega.close)
        (folder / "files").mkdir()
        systems: list[System] = [
            FileSystem(folder / "files"),
            KafkaSystem(KafkaToolbox(kafka.address)),
            CassandraSystem(CassandraToolbox(cassandra.address)),
            PravegaSystem(pravega),
        ]
        assert {system.name for system in systems} == set(SYSTEMS)
        servers = [partial(kill_server, kafka, "kafka"), partial(kill_server, cassandra, "cassandra")]
        end, number = time.monotonic() + arguments.minutes * 60, 0
        while number < len(systems) * len(KINDS) or time.monotonic() < end:
            place = folder / f"round-{number}"
            place.mkdir()
            delivery, on_cluster = KINDS[number // len(systems) % len(KINDS)]
            streams = streams_of(systems, number % len(systems), delivery)
            with ExitStack() as round_stack:
                cluster = round_stack.enter_context(Cluster(place)) if on_cluster else None
                job = {"master": cluster.url} if cluster else {}
                kill_task: Victim = partial(kill_executor, cluster) if cluster else kill_worker
                victims: list[Victim] = [kill_driver, kill_task, *servers]
                found = one_round(Round(streams, place, partial(_start, place), **job), dice, victims, seen)
            number += 1
            left = max(0.0, end - time.monotonic()) / 60
            print(f"round {number}: {found or 'nothing lost, nothing duplicated'} ({left:.0f} min left)", flush=True)
            if found:
                return 1
    seen.write_page(PAGE)
    return 0


def _start(folder: Path, job: str, **arguments: object) -> Driver:
    return Driver(folder, job, arguments)


def one_round(matrix: Round, dice: random.Random, victims: Sequence[Victim], seen: Seen) -> str:
    """Runs a round, and returns what is wrong after it."""
    for _ in range(dice.randint(1, MOST_KILLS)):
        matrix.run(dice, victims, ROWS)
    names = ", ".join(f"{stream.name} ({stream.delivery})" for stream in matrix.streams)
    print(f"  {names}; killed: {', '.join(matrix.killed)}", flush=True)
    found = matrix.finish(ROWS)
    seen.add(matrix.streams, len(matrix.killed))
    return found


if __name__ == "__main__":
    sys.exit(main())
