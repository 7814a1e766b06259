"""Several streams in one driver, each from one system to another: ``python every.py spec=spec.json [master=…]``.

The spec is a list of ``{"name", "source": {"format", "options", "schema", "columns"}, "windows": true | false,
"distinct": true | false, "straggler": true | false, "sink": {"format", "options", "columns"}}``; a source's columns are
selections, one after the other. Between source and sink a row has ``id long, at timestamp, note string``; with windows
it is one for each minute, whose number of rows is in ``note``; if they are to be distinct, every row goes through a
state store; with a straggler the first attempt of a task in the first batch sleeps, so that Spark starts another,
and attempts of this batch are noted in ``attempts-NAME``. Arguments ``spark.…`` are settings.

A query that fails leaves the others alone: it is named at the end, and the exit status is 1.
"""

import json
import os
import sys
import time

if os.environ.get("FAULT_POINT"):
    # Set before the JVM starts, so that every worker process inherits it.
    os.environ["FAULT_GROUP"] = str(os.getpgid(0))

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf, window

import penstock


def straggling(rows, name):
    attempts = os.path.abspath(f"attempts-{name}")

    def linger(value):
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

    return rows.repartition(4, "id").withColumn("note", udf(linger, "string", useArrow=False)("note"))


def counted(rows):
    counts = rows.withWatermark("at", "5 minutes").groupBy(window("at", "1 minute")).count()
    return counts.selectExpr("unix_seconds(window.start) as id", "window.start as at", "string(count) as note")


arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
with open(arguments["spec"]) as file:
    spec = json.load(file)
builder = SparkSession.builder.master(arguments.get("master", "local[2,4]")).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
for name, value in arguments.items():
    if name.startswith("spark."):
        builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
penstock.register(spark)
queries = []
for one in spec:
    source, sink = one["source"], one["sink"]
    reader = spark.readStream.format(source["format"]).options(**source["options"])
    rows = (reader.schema(source["schema"]) if "schema" in source else reader).load()
    for columns in source["columns"]:
        rows = rows.selectExpr(*columns)
    if one["windows"]:
        rows = counted(rows)
    if one["distinct"]:
        rows = rows.dropDuplicates(["id"])
    if one["straggler"]:
        rows = straggling(rows, one["name"])
    writer = rows.selectExpr(*sink["columns"]).writeStream.format(sink["format"]).options(**sink["options"])
    writer = writer.queryName(one["name"]).option("checkpointLocation", os.path.abspath(f"ck-{one['name']}"))
    queries.append(writer.trigger(availableNow=True).start())
    # Spark gives a Python process ten seconds to answer, which is not much if many start at a time.
    while queries[-1].isActive and queries[-1].lastProgress is None:
        time.sleep(0.05)
failed = False
for query in queries:
    try:
        query.awaitTermination()
    except Exception as error:
        failed = True
        print(f"{query.name} failed: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
sys.exit(failed)
