"""A batch function that writes two directories, by Spark Connect: server, in, out, checkpoint, and a file ``fails``.

While that file is there, batch 1 fails between its two writes. Prints what a second write of a batch ends with.
"""

import os

from pyspark.sql import DataFrame, SparkSession

import penstock
from harness.job import arguments

given = arguments()
spark = SparkSession.builder.remote(given["server"]).getOrCreate()
penstock.register(spark)
files = spark.readStream.format("penstock.filesystem").schema("id long, at string, note string")
rows = files.options(path=given["in"], format="csv", header="true", maxFilesPerTrigger="1").load().select("id")


def write(df: DataFrame, batch_id: int) -> None:
    def to(name: str) -> None:
        writer = penstock.batch_writer(df, batch_id, checkpoint=given["checkpoint"], name=name)
        writer = writer.format("penstock.filesystem").options(format="json", bucketAssigner="basePath")
        writer.save(f"{given['out']}/{name}")

    to("first")
    if batch_id == 1 and os.path.exists(given["fails"]):
        raise RuntimeError("between the writes")
    to("second")
    if batch_id == 2:
        try:
            to("second")
        except Exception as error:
            with open(given["fails"] + "-again", "w") as file:
                file.write(str(error))


query = rows.writeStream.foreachBatch(write).option("checkpointLocation", given["checkpoint"])
query.trigger(availableNow=True).start().awaitTermination()
