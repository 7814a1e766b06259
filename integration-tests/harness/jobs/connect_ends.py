"""Spark's rows to files by Spark Connect: server, in, out, checkpoint, and how the run ends.

Prints what a reader sees when the call returns that ends it.
"""

import time
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from harness.job import arguments

given = arguments()
spark = SparkSession.builder.remote(given["server"]).getOrCreate()
penstock.register(spark)
rows = spark.readStream.schema("value string").text(given["in"])
writer = rows.writeStream.format("penstock.filesystem").options(format="text", bucketAssigner="basePath")
writer = writer.option("path", given["out"]).option("checkpointLocation", given["checkpoint"])
if given["end"] == "availableNow":
    writer.trigger(availableNow=True).start().awaitTermination()
else:
    query = writer.start()
    while sum(progress.numInputRows for progress in query.recentProgress) < 3:
        time.sleep(0.1)
if given["end"] == "processAllAvailable":
    query.processAllAvailable()
if given["end"] == "stop":
    query.stop()
if given["end"] == "session":
    spark.stop()
if given["end"] == "unreachable":
    Path(given["checkpoint"]).rename(given["checkpoint"] + "-away")
    query.stop()
if given["end"] == "other":
    from penstock.spark import _connect_ends

    _connect_ends._started.clear()
    (found,) = spark.streams.active
    found.stop()
files = Path(given["out"]).glob("*.txt")
print("visible:", sorted(line for path in files for line in path.read_text().split()))
