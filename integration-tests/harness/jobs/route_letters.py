"""Kafka into a sink with dead letters, as a user would write it.

Arguments: brokers, in, to (the sink's format), ``sink.…`` (its options). Values are JSON objects with an id, or nothing
that could be decoded.
"""

from harness.job import arguments, session

given = arguments()
spark = session(given)
source = spark.readStream.format("penstock.kafka").options(
    **{
        "kafka.bootstrap.servers": given["brokers"],
        "subscribe": given["in"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "60",
        "value.format": "json",
        "value.schema": "id long, note string",
        "badRecords": "deadLetter",
    }
)
options = {name.removeprefix("sink."): text for name, text in given.items() if name.startswith("sink.")}
rows = source.load()
if given["to"] == "cassandra":
    rows = rows.select("value.*", "_bad_record")
else:
    rows = rows.selectExpr("cast(value.id as string) as value", "_bad_record")
writer = rows.writeStream.format(f"penstock.{given['to']}").options(**options).option("checkpointLocation", "ck/")
writer.trigger(availableNow=True).start().awaitTermination()
