"""What the scripts in ``jobs/`` share. It runs in the driver."""

from __future__ import annotations

import os
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import penstock

__all__ = ["arguments", "session", "straggling"]


def arguments() -> dict[str, str]:
    """Returns the ``key=value`` arguments of the command line."""
    return dict(argument.split("=", 1) for argument in sys.argv[1:])


def session(given: dict[str, str], master: str = "local[2]", log: str = "ERROR", **settings: str) -> SparkSession:
    """Returns a session with all connectors. Removes ``master``, ``log`` and ``spark.…`` settings from ``given``."""
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **settings}
    settings |= {name: given.pop(name) for name in list(given) if name.startswith("spark.")}
    spark = SparkSession.builder.master(given.pop("master", master)).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel(given.pop("log", log))
    penstock.register(spark)
    return spark


def straggling(rows: DataFrame, column: str, attempts: str, *keys: str) -> DataFrame:
    """Repartitions into four tasks. In the first batch one of them sleeps in its first attempt: Spark starts another.

    Each attempt of this batch appends a line to the file ``attempts``: stage, partition, number of the attempt.
    """
    attempts = os.path.abspath(attempts)

    def linger(value: object) -> object:
        from pyspark import TaskContext

        task = TaskContext.get()
        is_first_batch = task.getLocalProperty("streaming.sql.batchId") == "0"
        if is_first_batch and not getattr(task, "seen", False):  # the first row of a task
            task.seen = True
            with open(attempts, "a") as file:
                file.write(f"{task.stageId()} {task.partitionId()} {task.attemptNumber()}\n")
            if task.partitionId() == 0 and task.attemptNumber() == 0:
                time.sleep(45)
        return value

    slow = udf(linger, rows.schema[column].dataType, useArrow=False)
    return rows.repartition(4, *keys).withColumn(column, slow(column))
