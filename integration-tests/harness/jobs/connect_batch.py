"""What a session over Spark Connect is used for beside streams, as one line of JSON: server, in (CSV files),
out (a directory), secret (which is not needed), and where a Cassandra node is: host, port, keyspace, table.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession, functions

import penstock
from harness.job import arguments
from penstock_cassandra import Lookup

given = arguments()
spark = SparkSession.builder.remote(given["server"]).getOrCreate()
done = penstock.register(spark)


async def square(row: dict[str, Any]) -> dict[str, Any]:
    return {"square": row["id"] ** 2}


def refused(*options: tuple[str, str]) -> str:
    reader = spark.read.format("penstock.filesystem").option("path", given["in"])
    for name, value in options:
        reader = reader.option(name, value)
    try:
        reader.load().collect()
    except Exception as error:
        return str(error)
    return ""


def directories() -> list[str]:
    """What partitionBy of a stream's writer makes."""
    rows = spark.readStream.schema("value string").text(given["in"]).selectExpr("value", "1 as n")
    writer = rows.writeStream.format("penstock.filesystem").option("format", "text").partitionBy("n")
    out = given["out"] + "-by-n"
    writer = writer.option("path", out).option("checkpointLocation", out + "-checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination()
    return sorted(path.name for path in Path(out).iterdir() if not path.name.startswith("."))


files = spark.read.format("penstock.filesystem").schema("id long, at string, note string")
files = files.option("path", given["in"]).option("format", "csv").option("header", "true").load()
target = {"path": given["out"], "format": "parquet", "s3.key": given["secret"], "s3.secret": given["secret"]}
files.write.format("penstock.filesystem").options(**target).mode("append").save()
place = {name: given[name] for name in ("host", "port", "keyspace", "table")}
table = Lookup(place, on={"id": "id"}, columns=["name"])
named = penstock.enrich(files, table).where("name is not null").select("id", "name").orderBy("id")
counts = penstock.enrich_async(files, square, "square long", on=["id"]).agg(functions.sum("square"))
print(
    json.dumps(
        {
            "formats": done.formats,
            "read": files.where("id < 7").count(),
            "written": spark.read.format("penstock.filesystem").options(**target).load().count(),
            "called": counts.first()[0],
            "found": [list(row) for row in named.collect()],
            "misspelt": refused(("format", "csv"), ("maxFilesPerTriger", "1")),
            "counters": done.metrics(),
            "directories": directories(),
        }
    )
)
