"""A batch function whose group of sinks and whose threads write, by Spark Connect: server, in, out, checkpoint.

While the file ``fails`` is there, batch 1 fails inside the group's block.
"""

import os
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame, SparkSession

import penstock
from harness.job import arguments

given = arguments()
spark = SparkSession.builder.remote(given["server"]).getOrCreate()
penstock.register(spark)
files = spark.readStream.format("penstock.filesystem").schema("id long, at string, note string")
rows = files.options(path=given["in"], format="csv", header="true", maxFilesPerTrigger="1").load().select("id")
options = {"format": "json", "bucketAssigner": "basePath"}
sinks = {
    name: ("penstock.filesystem", {"path": f"{given['out']}/{name}", **options})
    for name in ("first", "second", "third")
}
group = penstock.SinkGroup("all", checkpoint=given["checkpoint"], sinks=sinks)


def write(df: DataFrame, batch_id: int) -> None:
    with group.batch(df, batch_id) as batch:
        batch.write("first", df)
        if batch_id == 1 and os.path.exists(given["fails"]):
            raise RuntimeError("inside the block")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: batch.write(name, df), ["second", "third"]))

    def alone(name: str) -> None:
        twice = df.selectExpr("id", "id % 2 AS odd")
        writer = penstock.batch_writer(twice, batch_id, checkpoint=given["checkpoint"], name=name)
        writer = writer.format("penstock.filesystem").option("format", "json").partitionBy("odd")
        writer.save(f"{given['out']}/{name}")

    with ThreadPoolExecutor() as pool:
        list(pool.map(alone, ["fourth", "fifth"]))


query = rows.writeStream.foreachBatch(write).option("checkpointLocation", given["checkpoint"])
query.trigger(availableNow=True).start().awaitTermination()
