"""CSV files to a Cassandra table, or with ``from`` a table to Parquet files, as a user would write it.

``key=value`` arguments: address, keyspace, options of the sink (``table`` or ``statement`` among them).
"""

import os
import sys

if os.environ.get("FAULT_POINT"):
    # Set before the JVM starts, so that every worker process inherits it.
    os.environ["FAULT_GROUP"] = str(os.getpgid(0))

from pyspark.sql import SparkSession

import penstock

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
host, _, port = arguments.pop("address").rpartition(":")
cluster = {"host": host, "port": port, "keyspace": arguments.pop("keyspace")}
table, columns = arguments.pop("from", ""), arguments.pop("columns", "*").split(";")
builder = SparkSession.builder.master(arguments.pop("master", "local[2]")).config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
penstock.register(spark)
per_trigger = arguments.pop("per_trigger", "2")
if table:
    source = spark.readStream.format("penstock.cassandra").options(**cluster, table=table)
    rows = source.options(splits=arguments.pop("splits"), maxSplitsPerTrigger=per_trigger).load()
    writer = rows.writeStream.format("penstock.filesystem").options(format="parquet", path="out/")
else:
    source = spark.readStream.format("penstock.filesystem").schema("id long, at timestamp, note string")
    rows = source.options(format="csv", header=True, maxFilesPerTrigger=per_trigger).load("in/")
    writer = rows.selectExpr(*columns).writeStream.format("penstock.cassandra").options(**cluster)
writer = writer.options(**arguments).option("checkpointLocation", "ck/")
writer.trigger(availableNow=True).start().awaitTermination()
