"""The changes of a table, from Kafka into a Cassandra table and into change files, in one batch function.

    python examples/cdc/job.py BROKERS TOPIC HOST PORT KEYSPACE TABLE FOLDER [once]

Below FOLDER are the checkpoint and the files. With ``once`` it ends when it has read what is there.
"""

import sys

from pyspark.sql import SparkSession

import penstock

brokers, topic, host, port, keyspace, table, folder, *mode = sys.argv[1:]
CHECKPOINT = f"{folder}/checkpoint"

settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
penstock.register(spark)

changes = spark.readStream.format("penstock.kafka").option("kafka.bootstrap.servers", brokers)
changes = changes.option("subscribe", topic).option("startingOffsets", "earliest").option("maxRowsPerTrigger", 100)
changes = changes.option("value.format", "debezium")
changes = changes.option("value.schema", "id long, customer string, price decimal(10,2), note string").load()

rows = changes.where("value.op is not null").selectExpr(
    "value.op",
    "coalesce(value.after, value.before) as row",
    "cast(get_json_object(value.source.json, '$.lsn') as long) as lsn",
    "value.unavailable",
)
rows = rows.select("op", "row.*", "lsn", "unavailable")


def write(df, batch_id):
    def to(name):
        writer = penstock.batch_writer(df, batch_id, checkpoint=CHECKPOINT, name=name)
        return writer.options(operationColumn="op", orderColumn="lsn", unavailableColumn="unavailable")

    df.persist()
    orders = to("table").format("penstock.cassandra")
    orders.options(host=host, port=port, keyspace=keyspace, table=table).save()
    files = to("files").format("penstock.filesystem").option("keyColumns", "id").option("bucketAssigner", "basePath")
    files.save(f"{folder}/changes")
    df.unpersist()


query = rows.writeStream.foreachBatch(write).option("checkpointLocation", CHECKPOINT)
query = query.trigger(**({"availableNow": True} if mode else {"processingTime": "200 milliseconds"}))
query.start().awaitTermination()
