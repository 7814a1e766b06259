"""Orders from Kafka counted into three sinks by a pipeline file, which is stopped in the middle and started again.

    python examples/orders/demo.py

Starts Kafka and Cassandra, or uses those of PENSTOCK_KAFKA_ADDRESS and PENSTOCK_CASSANDRA_ADDRESS. Orders are fed into
a topic while ``penstock run pipeline.yaml`` counts them. It is stopped as by Ctrl-C, and started again with another
number of tasks. At the end the counts in files, topic and table are compared with a plain count of the same orders.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow.dataset as ds

from penstock.dev import open_server
from penstock.errors import PenstockError
from penstock_cassandra.client import Client, ConnectionSettings, acquire_client, release_client
from penstock_cassandra.dev import CassandraDevServer
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parents[1] / "demo-output" / "orders"
CITIES = ("Aachen", "Brno", "Cádiz", "Delft")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
WINDOW_SECONDS = 10
#: Without a new count for so long, something is wrong.
PATIENCE_SECONDS = 240

#: City, and when its 10 seconds begin.
Window = tuple[str, datetime]
#: By window and what was counted for it: how often that is there.
Found = Counter[tuple[Window, int, int]]


class DemoError(Exception):
    """The demo can't go on."""


def make_orders(number: int) -> list[tuple[str, int, datetime]]:
    """Returns city, cents and time of orders, three a second, each up to 5 seconds late."""
    dice = random.Random(7)
    return [
        (dice.choice(CITIES), dice.randrange(100, 10_000), START + timedelta(seconds=n / 3 - dice.uniform(0, 5) + 5))
        for n in range(number)
    ]


def count(orders: list[tuple[str, int, datetime]]) -> Found:
    """Returns what every sink must have, by a plain count."""
    orders_of: Counter[Window] = Counter()
    cents_of: Counter[Window] = Counter()
    for city, cents, at in orders:
        seconds = int((at - START).total_seconds()) // WINDOW_SECONDS * WINDOW_SECONDS
        window = (city, START + timedelta(seconds=seconds))
        orders_of[window] += 1
        cents_of[window] += cents
    return Counter((window, orders_of[window], cents_of[window]) for window in orders_of)


def feed(kafka: KafkaToolbox, topic: str, orders: list[tuple[str, int, datetime]], resumed: threading.Event) -> None:
    """Writes the orders: one half, and the other once the run was stopped. The last one only moves time on."""
    later = ("nowhere", 0, orders[-1][2] + timedelta(hours=1))
    half = len(orders) // 2
    for number, part in enumerate((orders[:half], [*orders[half:], later])):
        if number:
            resumed.wait()
        rows = ({"city": city, "cents": cents, "at": at.isoformat()} for city, cents, at in part)
        kafka.produce(topic, [json.dumps(row).encode() for row in rows])


class Run:
    """One run of the pipeline file, in a process group of its own."""

    def __init__(self, environment: dict[str, str], master: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "run", "--plain", str(HERE / "pipeline.yaml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment, "MASTER": master},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())
            print("   ", line.rstrip(), flush=True)

    def check(self) -> None:
        """Raises DemoError if it has ended by itself: it never should."""
        if self._process.poll() is not None:
            raise DemoError(f"the run ended by itself (exit code {self._process.returncode})")

    def interrupt(self) -> str:
        """Does what Ctrl-C does: SIGINT to every process of the terminal. Returns the last line."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        self._process.wait(PATIENCE_SECONDS)
        self._reader.join(10)
        if self._process.returncode != 128 + signal.SIGINT:
            raise DemoError(f"exit code {self._process.returncode} after Ctrl-C, and not {128 + signal.SIGINT}")
        return self.lines[-1]

    def kill(self) -> None:
        """Leaves nothing running, whatever happened."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Sinks:
    """What anybody reads in the three sinks."""

    def __init__(self, kafka: KafkaToolbox, topic: str, cassandra: Client, table: str) -> None:
        self._kafka, self._topic, self._cassandra, self._table = kafka, topic, cassandra, table

    def topic(self) -> Found:
        """As a consumer of committed records."""
        values = [json.loads(record.value or b"") for record in self._kafka.read(self._topic)]
        return Counter(
            ((row["city"], datetime.fromisoformat(row["starts"].replace("Z", "+00:00"))), row["orders"], row["cents"])
            for row in values
        )

    def files(self) -> Found:
        """As a reader that knows Hive's directories."""
        if not (OUTPUT / "archive").exists():
            return Counter()
        rows = ds.dataset(OUTPUT / "archive", format="parquet", partitioning="hive").to_table().to_pylist()
        return Counter(
            ((row["city"], row["starts"].astimezone(timezone.utc)), row["orders"], row["cents"]) for row in rows
        )

    def table(self) -> Found:
        """As a client of the database."""
        rows = self._cassandra.rows(f"select city, starts, orders, cents from {self._table}", ())
        return Counter(
            ((city, starts.replace(tzinfo=timezone.utc)), orders, cents) for city, starts, orders, cents in rows
        )


@contextmanager
def table_of_counts(address: str, keyspace: str) -> Iterator[Client]:
    """Opens a connection to a new keyspace with the table."""
    host, _, port = address.rpartition(":")
    client = acquire_client(ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=120))
    one_copy = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    client.rows(f"create keyspace {keyspace} with replication = {one_copy}", ())
    columns = "city text, starts timestamp, orders bigint, cents bigint, primary key (city, starts)"
    client.rows(f"create table {keyspace}.order_counts ({columns})", ())
    try:
        yield client
    finally:
        release_client(client)


def wait_for(run: Run, sinks: Sinks, windows: int) -> None:
    """Returns once the topic has so many counts."""
    seen, last_sign = 0, time.monotonic()
    while (now := sinks.topic().total()) < windows:
        run.check()
        if now != seen:
            seen, last_sign = now, time.monotonic()
        if time.monotonic() - last_sign > PATIENCE_SECONDS:
            raise DemoError(f"no new count for {PATIENCE_SECONDS} s: {now} of {windows}")
        time.sleep(0.5)


def demo(brokers: str, cassandra: str, number: int) -> bool:
    """The demonstration. Returns whether every sink has every count once."""
    token = uuid.uuid4().hex[:6]
    kafka, keyspace = KafkaToolbox(brokers), f"shop_{token}"
    incoming, outgoing = kafka.create_topic(f"orders-{token}", 3), kafka.create_topic(f"order-counts-{token}", 2)
    host, _, port = cassandra.rpartition(":")
    environment = {"BROKERS": brokers, "ORDERS": incoming, "COUNTS": outgoing, "OUTPUT": str(OUTPUT)}
    environment |= {"CASSANDRA": host, "CASSANDRA_PORT": port, "KEYSPACE": keyspace}
    orders, resumed = make_orders(number), threading.Event()
    expected = count(orders)
    feeder = threading.Thread(target=feed, args=(kafka, incoming, orders, resumed), daemon=True)
    with table_of_counts(cassandra, keyspace) as client, ExitStack() as runs:
        sinks = Sinks(kafka, outgoing, client, f"{keyspace}.order_counts")
        feeder.start()
        print("\nThe first run, until it has written counts; then Ctrl-C:", flush=True)
        first = Run(environment, "local[2]")
        runs.callback(first.kill)
        wait_for(first, sinks, 1)
        first.interrupt()
        resumed.set()
        print("\nThe second run, with three tasks at once, until every order is counted; then Ctrl-C:", flush=True)
        second = Run(environment, "local[3]")
        runs.callback(second.kill)
        wait_for(second, sinks, expected.total())
        second.interrupt()
        feeder.join(10)
        found = {"files": sinks.files(), "topic": sinks.topic(), "table": sinks.table()}
    print(f"\norders {number:,} · counts {expected.total():,}")
    for name, there in found.items():
        print(f"{name}: lost={(expected - there).total()} doubled or wrong={(there - expected).total()}")
    return all(there == expected for there in found.values())


def main() -> int:
    """Runs the demo. Returns the exit code: 0 if every count is right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orders", type=int, default=60_000, help="how many (default 60,000)")
    arguments = parser.parse_args()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    print("Kafka and Cassandra start …", flush=True)
    try:
        with (
            open_server(KafkaDevServer(), OUTPUT / "broker") as brokers,
            open_server(CassandraDevServer(), OUTPUT / "cassandra") as cassandra,
        ):
            is_right = demo(brokers, cassandra, arguments.orders)
    except (DemoError, PenstockError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print("\nLook at what it left: penstock inspect demo-output/orders/checkpoint")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
