"""``df.write`` of 2,000 rows to Parquet files; ``key=value`` arguments are options of the sink."""

import os
import sys

if os.environ.get("FAULT_POINT"):
    # Set before the JVM starts, so that every worker process inherits it.
    os.environ["FAULT_GROUP"] = str(os.getpgid(0))

from pyspark.sql import SparkSession

import penstock

options = dict(argument.split("=", 1) for argument in sys.argv[1:])
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
penstock.register(spark)
writer = spark.range(0, 2000, 1, 2).write.format("penstock.filesystem").mode("append").option("format", "parquet")
writer.option("path", "out/").options(**options).save()
