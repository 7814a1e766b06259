"""Pravega to Pravega, as a user would write it; arguments: controller, scope, in, out, options of the sink."""

import os
import sys

if os.environ.get("FAULT_POINT"):
    # Set before the JVM starts, so that every worker process inherits it.
    os.environ["FAULT_GROUP"] = str(os.getpgid(0))

from pyspark.sql import SparkSession

import penstock

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
controller, scope = arguments.pop("controller"), arguments.pop("within")
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
penstock.register(spark)
source = spark.readStream.format("penstock.pravega").option("controller", controller).option("scope", scope)
source = source.option("stream", arguments.pop("in")).option("startingStreamCut", "head")
source = source.option("discoveryInterval", "200ms").option("maxRowsPerTrigger", arguments.pop("per_trigger", "1000"))
rows = source.load().selectExpr("split(cast(value as string), ':')[0] as routing_key", "value")
writer = rows.writeStream.format("penstock.pravega").option("controller", controller).option("scope", scope)
writer = writer.option("stream", arguments.pop("out")).option("checkpointLocation", arguments.pop("checkpoint", "ck/"))
for name, value in {"delivery": "exactly-once", **arguments}.items():
    writer = writer.option(name, value)
writer.trigger(availableNow=True).start().awaitTermination()
