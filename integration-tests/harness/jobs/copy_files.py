"""CSV files to Parquet files, or to a write-ahead sink, as a user would write it; the rest are the sink's options."""

import os

from harness.job import arguments, session, straggling
from penstock.testing._samples.connector import MinimalConnector
from penstock.testing._spark_source import data_source

given = arguments()
spark = session(given)
mode = given.pop("mode", "plain")
source = {name: given[name] for name in given if name.startswith("s3.") or name == "retryTimeout"}
rows = (
    spark.readStream.format("penstock.filesystem")
    .options(**source)
    .schema("id long, at timestamp, note string")
    .option("format", "csv")
    .option("header", True)
    .option("maxFilesPerTrigger", given.pop("files_per_trigger", "2"))
    .load(given.pop("input", "in/"))
)
if mode == "distinct":  # every row goes through a state store
    rows = rows.dropDuplicates(["id"])
if mode == "shuffle":
    rows = rows.repartition(int(given.pop("partitions", "4")))
if mode == "straggler":
    rows = straggling(rows, "note", "attempts")
if given.pop("sink", "filesystem") == "write-ahead":  # the smallest one that the kit has
    spark.dataSource.register(data_source(MinimalConnector))
    rows = rows.withColumn("at", rows["at"].cast("string"))
    writer = rows.writeStream.format("penstock.under_test").option("path", os.path.abspath("out"))
else:
    writer = rows.writeStream.format("penstock.filesystem").option("format", "parquet").option("path", "out/")
writer = writer.options(**given).option("checkpointLocation", "ck/")
writer.trigger(availableNow=True).start().awaitTermination()
