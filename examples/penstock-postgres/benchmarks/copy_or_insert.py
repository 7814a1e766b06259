"""Rows of one Arrow batch into a table: by COPY in binary, as the sink writes, and by executemany.

    python benchmarks/copy_or_insert.py HOST DATABASE USER [ROWS]

Both are one transaction into an empty table. They alternate, after one run of each that does not count.
"""

from __future__ import annotations

import sys
import time
from decimal import Decimal
from statistics import median

import pyarrow as pa
from penstock_postgres.client import CopyIn, Server, describe, lent

COLUMNS = "id bigint, name text, price numeric(10, 2), at timestamp"
INSERT = "insert into penstock_benchmark values (%s, %s, %s, %s)"
ROUNDS = 5


def make(rows: int) -> pa.RecordBatch:
    ids = pa.array(range(rows), pa.int64())
    names = pa.array([f"customer {i % 1000}" for i in range(rows)])
    prices = pa.array([Decimal(i % 100_000) / 100 for i in range(rows)], pa.decimal128(10, 2))
    return pa.record_batch([ids, names, prices, ids.cast(pa.timestamp("us"))], ["id", "name", "price", "at"])


def copy(connection, batch):
    table = describe(connection, "penstock_benchmark")
    rows = CopyIn(connection, table.path, [table.column(name) for name in batch.schema.names])
    rows.write(batch)
    rows.finish()


def insert(connection, batch):
    with connection.cursor() as cursor:
        cursor.executemany(INSERT, zip(*(column.to_pylist() for column in batch.columns)))


def main(host: str, database: str, user: str, rows: str = "100000") -> None:
    batch = make(int(rows))
    seconds = {copy: [], insert: []}
    with lent(Server(host, 5432, database, user)) as connection:
        connection.execute(f"create table penstock_benchmark ({COLUMNS})")
        try:
            for number in range(ROUNDS + 1):
                for way, taken in seconds.items():
                    connection.execute("truncate penstock_benchmark")
                    started = time.perf_counter()
                    with connection.transaction():
                        way(connection, batch)
                    if number:
                        taken.append(time.perf_counter() - started)
        finally:
            connection.execute("drop table penstock_benchmark")
    for way, taken in seconds.items():
        print(f"{way.__name__:7} {int(rows) / median(taken):>12,.0f} rows/s")
    print(f"COPY is {median(seconds[insert]) / median(seconds[copy]):.1f} times as fast")


if __name__ == "__main__":
    main(*sys.argv[1:])
