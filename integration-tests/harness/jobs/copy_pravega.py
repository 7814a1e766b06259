"""Pravega to Pravega, as a user would write it: controller, within (a scope), in, out, options of the sink."""

from harness.job import arguments, session

given = arguments()
spark = session(given)
where = {"controller": given.pop("controller"), "scope": given.pop("within")}
source = spark.readStream.format("penstock.pravega").options(**where).option("stream", given.pop("in"))
source = source.option("startingStreamCut", "head").option("discoveryInterval", "200ms")
source = source.option("maxRowsPerTrigger", given.pop("per_trigger", "1000"))
rows = source.load().selectExpr("split(cast(value as string), ':')[0] as routing_key", "value")
writer = rows.writeStream.format("penstock.pravega").options(**where).option("stream", given.pop("out"))
writer = writer.options(**{"delivery": "exactly-once", **given}).option("checkpointLocation", "ck/")
writer.trigger(availableNow=True).start().awaitTermination()
