"""CSV files to Kafka exactly once, by Spark Connect: server, brokers, in, out, checkpoint."""

from pyspark.sql import SparkSession

import penstock
from harness.job import arguments

given = arguments()
spark = SparkSession.builder.remote(given["server"]).getOrCreate()
penstock.register(spark)
files = spark.readStream.format("penstock.filesystem").schema("id long, at string, note string")
files = files.option("path", given["in"]).option("format", "csv").option("header", "true")
rows = files.option("maxFilesPerTrigger", "1").load().selectExpr("string(id) as key", "string(id) as value")
writer = rows.writeStream.format("penstock.kafka").option("kafka.bootstrap.servers", given["brokers"])
writer = writer.option("topic", given["out"]).option("delivery", "exactly-once")
writer = writer.option("checkpointLocation", given["checkpoint"])
writer.trigger(availableNow=True).start().awaitTermination()
