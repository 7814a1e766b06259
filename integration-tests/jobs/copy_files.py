"""CSV files to Parquet files, or to a write-ahead sink, as a user would write it; ``key=value`` arguments."""

import os
import sys
import time

if os.environ.get("FAULT_POINT"):
    # Set before the JVM starts, so that every worker process inherits it.
    os.environ["FAULT_GROUP"] = str(os.getpgid(0))

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import penstock
from penstock.testing._samples.connector import MinimalConnector
from penstock.testing._spark_source import data_source

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
master = arguments.pop("master", "local[2]")
mode = arguments.pop("mode", "plain")
files_per_trigger = arguments.pop("files_per_trigger", "2")
builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", arguments.pop("shuffle_partitions", "2"))
builder = builder.config("spark.default.parallelism", arguments.pop("parallelism", "2"))
for name in [name for name in arguments if name.startswith("spark.")]:
    builder = builder.config(name, arguments.pop(name))
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel(arguments.pop("log", "ERROR"))
penstock.register(spark)
source = {name: arguments[name] for name in arguments if name.startswith("s3.")}
rows = (
    spark.readStream.format("penstock.filesystem")
    .options(**source)
    .schema("id long, at timestamp, note string")
    .option("format", "csv")
    .option("header", True)
    .option("maxFilesPerTrigger", files_per_trigger)
    .option("maxSplitBytes", arguments.pop("max_split_bytes", "128mb"))
    .load(arguments.pop("input", "in/"))
)
if mode == "windows":
    rows = rows.withWatermark("at", "0 seconds").groupBy("at").count()
if mode == "distinct":  # every row goes through a state store
    rows = rows.dropDuplicates(["id"])
if mode == "shuffle":
    rows = rows.repartition(int(arguments.pop("partitions", "4")))
if mode == "straggler":  # the first attempt of a task in each batch sleeps, so that Spark starts another

    def linger(value):
        from pyspark import TaskContext

        task = TaskContext.get()
        if not getattr(task, "seen", False):  # the first row of a task
            task.seen = True
            with open(attempts_file, "a") as file:
                file.write(f"{task.stageId()} {task.partitionId()} {task.attemptNumber()}\n")
            if task.partitionId() == 0 and task.attemptNumber() == 0:
                time.sleep(45)
        return value

    attempts_file = os.path.abspath("attempts")
    rows = rows.repartition(4).withColumn("note", udf(linger, "string", useArrow=False)("note"))
sink = arguments.pop("sink", "filesystem")
if sink == "write-ahead":  # the smallest one that the kit has
    spark.dataSource.register(data_source(MinimalConnector))
    writer = rows.writeStream.format("penstock.under_test").option("path", os.path.abspath("out"))
else:
    writer = rows.writeStream.format("penstock.filesystem").option("format", "parquet").option("path", "out/")
for name, value in arguments.items():
    writer = writer.option(name, value)
writer = writer.option("checkpointLocation", "ck/")
writer.trigger(availableNow=True).start().awaitTermination()
