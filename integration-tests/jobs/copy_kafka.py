"""Kafka to Kafka, as a user would write it; ``key=value`` arguments: brokers, in, out, mode, options of the sink."""

import os
import sys
import time

if os.environ.get("FAULT_POINT"):
    # Set before the JVM starts, so that every worker process inherits it.
    os.environ["FAULT_GROUP"] = str(os.getpgid(0))

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import penstock

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
mode = arguments.pop("mode", "plain")
brokers = arguments.pop("brokers")
builder = SparkSession.builder.master(arguments.pop("master", "local[2]")).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "2")
for name in [name for name in arguments if name.startswith("spark.")]:
    builder = builder.config(name, arguments.pop(name))
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
penstock.register(spark)
source = spark.readStream.format("penstock.kafka").option("kafka.bootstrap.servers", brokers)
source = source.option("subscribe", arguments.pop("in")).option("startingOffsets", "earliest")
source = source.option("discoveryInterval", "1s")
if "per_trigger" in arguments:
    source = source.option("maxOffsetsPerTrigger", arguments.pop("per_trigger"))
rows = source.load().select("key", "value")
if mode == "distinct":  # every row goes through a state store
    rows = rows.dropDuplicates(["value"])
if mode == "shuffle":
    rows = rows.repartition(int(arguments.pop("partitions", "4")), "key")
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
    rows = rows.repartition(4, "key").withColumn("value", udf(linger, "binary", useArrow=False)("value"))
writer = rows.writeStream.format("penstock.kafka").option("kafka.bootstrap.servers", brokers)
writer = writer.option("topic", arguments.pop("out")).option("checkpointLocation", arguments.pop("checkpoint", "ck/"))
trigger = arguments.pop("trigger", "")
for name, value in {"delivery": "exactly-once", **arguments}.items():
    writer = writer.option(name, value)
writer = writer.trigger(processingTime=trigger) if trigger else writer.trigger(availableNow=True)
writer.start().awaitTermination()
