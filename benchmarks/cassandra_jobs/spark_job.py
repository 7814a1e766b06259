"""A Spark session of one side, with that side's own pyspark: does what standard input says, and tells how long it took.

``write TABLE ROWS`` and ``read TABLE``; arguments: side, host, port, keyspace, tasks, jars.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

SIDE, HOST, PORT, KEYSPACE, TASKS, JARS = sys.argv[1:7]
OURS = SIDE == "penstock"


def session() -> SparkSession:
    """With as many slots as tasks."""
    builder = SparkSession.builder.master(f"local[{TASKS}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g").config("spark.log.level", "ERROR")
    if not OURS:
        builder = builder.config("spark.jars", JARS).config("spark.cassandra.connection.host", HOST)
        builder = builder.config("spark.cassandra.connection.port", PORT)
    made = builder.getOrCreate()
    if OURS:
        import penstock

        penstock.register(made)
    return made


def options(table: str) -> dict[str, str]:
    """Of either side."""
    where = {"host": HOST, "port": PORT} if OURS else {}
    return {"keyspace": KEYSPACE, "table": table, **where}


def write(spark: SparkSession, table: str, rows: int) -> None:
    """Rows of a bigint and two strings, about 100 bytes."""
    made = spark.range(0, rows, 1, int(TASKS)).selectExpr(
        "id", "concat('name-', id) as name", "repeat(substring(sha2(cast(id as string), 256), 1, 40), 2) as note"
    )
    made.write.format(FORMAT).options(**options(table)).mode("append").save()


def read(spark: SparkSession, table: str) -> None:
    """Every column of every row reaches Spark."""
    spark.read.format(FORMAT).options(**options(table)).load().write.format("noop").mode("overwrite").save()


FORMAT = "penstock.cassandra" if OURS else "org.apache.spark.sql.cassandra"
if __name__ == "__main__":
    spark = session()
    print("ready", flush=True)
    for line in sys.stdin:
        what, table, *rest = line.split()
        started = time.perf_counter()
        if what == "write":
            write(spark, table, int(rest[0]))
        else:
            read(spark, table)
        print("took", time.perf_counter() - started, flush=True)
