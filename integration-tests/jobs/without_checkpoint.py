"""A query whose checkpoint comes from the session's configuration, which a Python sink cannot see."""

from pyspark.sql import SparkSession

import penstock

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.streaming.checkpointLocation", "ck/")
    .getOrCreate()
)
penstock.register(spark)
rows = spark.readStream.format("penstock.filesystem").schema("id long").option("format", "csv").load("in/")
rows.writeStream.format("penstock.filesystem").option("path", "out/").trigger(
    availableNow=True
).start().awaitTermination()
