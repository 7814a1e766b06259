"""Several streams in one driver, each from one system to another: ``spec=spec.json [master=…] [spark.…=…]``.

The spec is a list of ``{"name", "source": {"format", "options", "schema", "columns"}, "windows": true | false,
"distinct": true | false, "straggler": true | false, "sink": {"format", "options", "columns"}}``; a source's columns are
selections, one after the other. Between source and sink a row has ``id long, at timestamp, note string``; with windows
it is one for each minute, whose number of rows is in ``note``; if they are to be distinct, every row goes through a
state store; with a straggler the first attempt of a task in the first batch sleeps, so that Spark starts another,
and attempts of this batch are noted in ``attempts-NAME``.

A query that fails leaves the others alone: it is named at the end, and the exit status is 1.
"""

import json
import os
import sys
import time

from pyspark.sql import DataFrame
from pyspark.sql.functions import window

from harness.job import arguments, session, straggling


def counted(rows: DataFrame) -> DataFrame:
    counts = rows.withWatermark("at", "5 minutes").groupBy(window("at", "1 minute")).count()
    return counts.selectExpr("unix_seconds(window.start) as id", "window.start as at", "string(count) as note")


given = arguments()
with open(given["spec"]) as file:
    spec = json.load(file)
spark = session(given, master="local[2,4]", **{"spark.sql.session.timeZone": "UTC"})
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
        rows = straggling(rows, "note", f"attempts-{one['name']}", "id")
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
