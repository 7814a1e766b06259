"""Page views from Kafka, counted per page and minute of event time, to Kafka: exactly once.

    python job.py BROKERS TOPIC_IN TOPIC_OUT CHECKPOINT

Kill it anywhere and start it again: a consumer of committed records sees the count of every page and minute once.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, struct, window

import penstock

brokers, topic_in, topic_out, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
penstock.register(spark)

views = (
    spark.readStream.format("penstock.kafka")
    .option("kafka.bootstrap.servers", brokers)
    .option("subscribe", topic_in)
    .option("startingOffsets", "earliest")
    .option("value.format", "json")
    .option("value.schema", "page string, at timestamp")
    .load()
    .select("value.*")
)
counts = (
    views.withWatermark("at", "1 minute")
    .groupBy(window("at", "1 minute"), "page")
    .agg(count("*").alias("views"))
    .select("page", col("window.start").alias("minute"), "views")
)
(
    counts.select(col("page").alias("key"), struct("page", "minute", "views").alias("value"))
    .writeStream.outputMode("append")  # a minute is written once, when the watermark has passed its end
    .format("penstock.kafka")
    .option("kafka.bootstrap.servers", brokers)
    .option("topic", topic_out)
    .option("value.format", "json")
    .option("delivery", "exactly-once")
    .option("checkpointLocation", checkpoint)
    .start()
    .awaitTermination()
)
