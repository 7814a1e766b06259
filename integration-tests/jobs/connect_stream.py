"""CSV files to Kafka exactly once, by Spark Connect; ``key=value`` arguments: server, brokers, in, out, checkpoint."""

import sys

from pyspark.sql import SparkSession

import penstock

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
spark = SparkSession.builder.remote(arguments["server"]).getOrCreate()
penstock.register(spark)
files = spark.readStream.format("penstock.filesystem").schema("id long, at string, note string")
files = files.option("path", arguments["in"]).option("format", "csv").option("header", "true")
rows = files.option("maxFilesPerTrigger", "1").load().selectExpr("string(id) as key", "string(id) as value")
writer = rows.writeStream.format("penstock.kafka").option("kafka.bootstrap.servers", arguments["brokers"])
writer = writer.option("topic", arguments["out"]).option("delivery", "exactly-once")
writer = writer.option("checkpointLocation", arguments["checkpoint"])
writer.trigger(availableNow=True).start().awaitTermination()
