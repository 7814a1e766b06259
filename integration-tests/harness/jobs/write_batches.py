"""Kafka into three sinks in one batch function, as a user would write it: a topic, a Cassandra table, and files.

Arguments: brokers, in, out, table, host, port, keyspace. In mode ``update`` the counts of each key go into the topic
and the table.
"""

from pyspark.sql import DataFrame, DataFrameWriter

import penstock
from harness.job import arguments, session

given = arguments()
spark = session(given)
brokers, table = {"kafka.bootstrap.servers": given["brokers"]}, {name: given[name] for name in ("host", "port")}
source = spark.readStream.format("penstock.kafka").options(**brokers, subscribe=given["in"], startingOffsets="earliest")
records = source.option("maxOffsetsPerTrigger", "60").load().selectExpr("cast(value as string) as value")
mode = given.get("mode", "append")
if mode == "update":
    records = records.groupBy(records.value.substr(1, 2).alias("key")).count()
    records = records.selectExpr("key", "cast(count as string) as value")


def write(df: DataFrame, batch_id: int) -> None:
    def writer(name: str) -> DataFrameWriter:
        return penstock.batch_writer(df, batch_id, checkpoint="ck/", name=name)

    df.persist()
    writer("topic").format("penstock.kafka").options(**brokers, topic=given["out"], delivery="exactly-once").save()
    target = {**table, "keyspace": given["keyspace"], "table": given["table"]}
    writer("table").format("penstock.cassandra").options(**target).save()
    if mode == "append":
        files = {"path": "out/", "format": "parquet", "bucketAssigner": "basePath"}
        writer("files").format("penstock.filesystem").options(**files).save()
    df.unpersist()


stream = records.writeStream.foreachBatch(write).outputMode(mode).option("checkpointLocation", "ck/")
stream.trigger(availableNow=True).start().awaitTermination()
