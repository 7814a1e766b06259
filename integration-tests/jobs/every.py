"""Several streams in one driver, each from one system to another: ``python every.py spec=spec.json [master=…]``.

The spec is a list of ``{"name", "source": {"format", "options", "schema", "columns"}, "windows": true | false,
"sink": {"format", "options", "columns"}}``; a source's columns are selections, one after the other. Between source and
sink a row has ``id long, at timestamp, note string``; with windows it is one for each minute, whose number of rows is
in ``note``.
"""

import json
import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import window

import penstock

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
with open(arguments["spec"]) as file:
    spec = json.load(file)
builder = SparkSession.builder.master(arguments.get("master", "local[2,4]")).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
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
        counted = rows.withWatermark("at", "5 minutes").groupBy(window("at", "1 minute")).count()
        rows = counted.selectExpr("unix_seconds(window.start) as id", "window.start as at", "string(count) as note")
    writer = rows.selectExpr(*sink["columns"]).writeStream.format(sink["format"]).options(**sink["options"])
    writer = writer.queryName(one["name"]).option("checkpointLocation", os.path.abspath(f"ck-{one['name']}"))
    queries.append(writer.trigger(availableNow=True).start())
    # Spark gives a Python process ten seconds to answer, which is not much if many start at a time.
    while queries[-1].isActive and queries[-1].lastProgress is None:
        time.sleep(0.05)
for query in queries:
    query.awaitTermination()
