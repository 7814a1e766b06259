"""Spark's rows to files by Spark Connect; ``key=value`` arguments: server, in, out, checkpoint, and how the run ends.

Prints what a reader sees when the call returns that ends it.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import penstock

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
spark = SparkSession.builder.remote(arguments["server"]).getOrCreate()
penstock.register(spark)
rows = spark.readStream.schema("value string").text(arguments["in"])
writer = rows.writeStream.format("penstock.filesystem").options(format="text", bucketAssigner="basePath")
writer = writer.option("path", arguments["out"]).option("checkpointLocation", arguments["checkpoint"])
if arguments["end"] == "availableNow":
    writer.trigger(availableNow=True).start().awaitTermination()
else:
    query = writer.start()
    query.processAllAvailable()
if arguments["end"] == "stop":
    query.stop()
if arguments["end"] == "session":
    spark.stop()
if arguments["end"] == "unreachable":
    Path(arguments["checkpoint"]).rename(arguments["checkpoint"] + "-away")
    query.stop()
if arguments["end"] == "other":
    from penstock.spark import _connect_ends

    _connect_ends._started.clear()
    (found,) = spark.streams.active
    found.stop()
files = Path(arguments["out"]).glob("*.txt")
print("visible:", sorted(line for path in files for line in path.read_text().split()))
