"""CSV files to files by Spark Connect, with metrics: server, in, out, checkpoint. Prints a scrape after the end."""

import time
import urllib.request

from pyspark.sql import SparkSession

import penstock
from harness.job import arguments

given = arguments()
spark = SparkSession.builder.remote(given["server"]).getOrCreate()
penstock.register(spark)
server = penstock.serve_metrics(spark, port=0)
rows = spark.readStream.format("penstock.filesystem").schema("id long, at string, note string")
rows = rows.option("format", "csv").option("header", "true").option("maxFilesPerTrigger", "1").load(given["in"])
writer = rows.writeStream.format("penstock.filesystem").option("path", given["out"]).queryName("remote")
query = writer.option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True).start()
query.awaitTermination()
scraped, deadline = "", time.monotonic() + 60
while 'penstock_query_running{query="remote"} 0.0' not in scraped and time.monotonic() < deadline:
    time.sleep(0.1)
    with urllib.request.urlopen(server.address) as answer:
        scraped = answer.read().decode()
print(scraped)
spark.stop()
