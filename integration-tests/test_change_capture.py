"""A real PostgreSQL, Debezium's engine, Kafka, and copies in Cassandra and in files: they end as the table.

Rows are inserted, updated, renamed and deleted while the job runs. The job is killed once, and so is the engine.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from decimal import Decimal
from pathlib import Path

import pytest
from capture import Engine, Postgres, missing

CDC = Path(__file__).parents[1] / "examples" / "cdc"

TABLE = "create table orders (id bigint primary key, customer text, price numeric(10, 2), note text)"
SECONDS = 180


@pytest.fixture
def postgres():
    if reason := missing():
        pytest.skip(reason)
    server = Postgres()
    yield server
    server.stop()


class Shop:
    """Writes random changes, a transaction at a time."""

    def __init__(self, postgres, seed):
        self._postgres, self._dice = postgres, random.Random(seed)
        postgres.run(TABLE)
        self.change(60)

    def change(self, statements):
        self._postgres.run(";\n".join(self._statement() for _ in range(statements)))

    def _statement(self):
        dice = self._dice
        key, price = dice.randrange(40), f"{dice.randrange(100_000) / 100:.2f}"
        # Large and hard to compress: kept apart from the row, so that an update of another column does not send it.
        note = "null" if dice.random() < 0.3 else f"'{dice.randbytes(6000).hex()}'"
        row = f"({key}, 'customer {dice.randrange(5)}', {price}, {note})"
        return dice.choice(
            [
                f"insert into orders values {row} on conflict (id) do update set (customer, price, note) = "
                "(excluded.customer, excluded.price, excluded.note)",
                f"update orders set price = {price} where id = {key}",
                f"update orders set price = {price} where id % 5 = {key % 5}",
                f"update orders set customer = null where id = {key}",
                # The text is another one: of a row whose key changes, one that stayed as it was would be lost.
                f"update orders set id = {key + 40}, note = 'moved' where id = {key} and not exists "
                f"(select from orders where id = {key + 40})",
                f"delete from orders where id = {key}",
                f"delete from orders where id = {key + 40}",
            ]
        )

    def rows(self):
        rows = self._postgres.run("select id, coalesce(customer, '-'), price, coalesce(md5(note), '-') from orders")
        return {int(key): (customer, Decimal(price), note) for key, customer, price, note in rows}


def start_job(folder, *arguments):
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with (folder / "job.log").open("ab") as log:
        command = [sys.executable, str(CDC / "job.py"), *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def kill_group(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def wait_for(holds, what, check=lambda: None):
    deadline = time.monotonic() + SECONDS
    while not holds():
        check()
        assert time.monotonic() < deadline, f"{what} did not come in {SECONDS} s"
        time.sleep(0.2)


def latest(spark, folder):
    spark.read.parquet(str(folder)).createOrReplaceTempView("changes")
    rows = spark.sql("""
        select id, max_by(customer, lsn) as customer, max_by(price, lsn) as price, md5(
            max_by(note, lsn) filter (where not coalesce(array_contains(unavailable, 'after.note'), false))
        ) as note
        from changes group by id having max_by(op, lsn) <> 'd'
    """)
    return {row.id: (row.customer or "-", row.price, row.note or "-") for row in rows.collect()}


@pytest.mark.exhaustive("PostgreSQL, Debezium, Kafka and Cassandra at once; test_change_streams draws the changes")
@pytest.mark.spark
@pytest.mark.budget(240)
@pytest.mark.timeout(900)
def test_copies_end_as_the_table(postgres, kafka, cassandra, spark, tmp_path):
    shop, prefix = Shop(postgres, seed=7), f"shop-{uuid.uuid4().hex[:8]}"
    topic = kafka.create_topic(f"{prefix}.public.orders", partitions=3)
    copy = cassandra.table("id bigint primary key, customer text, price decimal, note text")
    place = (cassandra.options["host"], str(cassandra.options["port"]), cassandra.keyspace, copy, str(tmp_path))
    capture = (tmp_path / "engine", postgres.port, kafka.address, "public.orders", prefix)

    def copied():
        return len(cassandra.rows(copy, "id"))

    def log():
        return (tmp_path / "job.log").read_text()[-3000:]

    engine, job = Engine(*capture), start_job(tmp_path, kafka.address, topic, *place)
    try:
        wait_for(copied, "the snapshot", engine.check)
        for _ in range(4):
            shop.change(15)
        kill_group(job)
        shop.change(30)
        engine.kill()
        engine = Engine(*capture)
        job = start_job(tmp_path, kafka.address, topic, *place)
        for _ in range(4):
            shop.change(15)
            time.sleep(0.5)
        shop._postgres.run("insert into orders values (-1, 'the last', 0, null)")
        last = f"select id from {cassandra.keyspace}.{copy} where id = -1"
        wait_for(lambda: cassandra.cql(last), "the last change", engine.check)
        kill_group(job)
        job = start_job(tmp_path, kafka.address, topic, *place, "once")
        assert job.wait(SECONDS) == 0, log()
    finally:
        engine.kill()
        kill_group(job)

    table = shop.rows()
    assert len(table) > 10
    rows = cassandra.rows(copy, "id, customer, price, note")
    hashed = {key: hashlib.md5(note.encode()).hexdigest() if note else "-" for key, _, _, note in rows}
    assert {key: (customer or "-", price, hashed[key]) for key, customer, price, _ in rows} == table
    assert latest(spark, tmp_path / "changes") == table
    changes = spark.read.parquet(str(tmp_path / "changes"))
    seen = {row.op: row["count"] for row in changes.groupBy("op").count().collect()}
    assert seen.keys() == {"r", "c", "u", "d"}, seen
    assert changes.where("array_contains(unavailable, 'after.note')").count() > 0, "values that were not sent"
