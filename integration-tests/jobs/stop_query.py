"""Lines of files to files: until the file ``stop`` is there, or all that there is. ``key=value`` arguments."""

import os
import sys
import time

if os.environ.get("FAULT_POINT"):
    os.environ["FAULT_GROUP"] = str(os.getpgid(0))

from pyspark.sql import SparkSession

import penstock

until = dict(argument.split("=", 1) for argument in sys.argv[1:])["until"]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
penstock.register(spark)
rows = spark.readStream.format("penstock.filesystem").schema("value string").option("format", "text").load("in/")
writer = rows.writeStream.format("penstock.filesystem").option("format", "text").option("path", "out/")
writer = writer.option("bucketAssigner", "basePath").option("checkpointLocation", "ck/")
if until == "end":
    writer.trigger(availableNow=True).start().awaitTermination()
else:
    query = writer.start()
    while not os.path.exists("stop"):
        assert query.isActive, query.exception()
        time.sleep(0.05)
    open("stopping", "w").close()
    query.stop()
