"""Kafka to Kafka, as a user would write it: brokers, in, out, mode, per_trigger, trigger, options of the sink."""

from harness.job import arguments, session, straggling

given = arguments()
spark = session(given)
mode = given.pop("mode", "plain")
where = {"kafka.bootstrap.servers": given.pop("brokers")}
source = spark.readStream.format("penstock.kafka").options(**where).option("subscribe", given.pop("in"))
source = source.option("startingOffsets", "earliest").option("discoveryInterval", "1s")
if "per_trigger" in given:
    source = source.option("maxOffsetsPerTrigger", given.pop("per_trigger"))
rows = source.load().select("key", "value")
if mode == "distinct":  # every row goes through a state store
    rows = rows.dropDuplicates(["value"])
if mode == "shuffle":
    rows = rows.repartition(int(given.pop("partitions", "4")), "key")
if mode == "straggler":
    rows = straggling(rows, "value", "attempts", "key")
trigger = given.pop("trigger", "")
writer = rows.writeStream.format("penstock.kafka").options(**where).option("topic", given.pop("out"))
writer = writer.options(**{"delivery": "exactly-once", **given}).option("checkpointLocation", "ck/")
writer = writer.trigger(processingTime=trigger) if trigger else writer.trigger(availableNow=True)
writer.start().awaitTermination()
