"""CSV files to a Cassandra table, or with ``from`` a table to Parquet files, as a user would write it.

Arguments: host, port, keyspace, options of the sink (``table`` or ``statement`` among them).
"""

from harness.job import arguments, session

given = arguments()
spark = session(given)
where = {name: given.pop(name) for name in ("host", "port", "keyspace")}
table, columns = given.pop("from", ""), given.pop("columns", "*").split(";")
per_trigger = given.pop("per_trigger", "2")
if table:
    source = spark.readStream.format("penstock.cassandra").options(**where, table=table)
    rows = source.options(splits=given.pop("splits"), maxSplitsPerTrigger=per_trigger).load()
    writer = rows.writeStream.format("penstock.filesystem").options(format="parquet", path="out/")
else:
    source = spark.readStream.format("penstock.filesystem").schema("id long, at timestamp, note string")
    rows = source.options(format="csv", header=True, maxFilesPerTrigger=per_trigger).load("in/")
    writer = rows.selectExpr(*columns).writeStream.format("penstock.cassandra").options(**where)
writer = writer.options(**given).option("checkpointLocation", "ck/")
writer.trigger(availableNow=True).start().awaitTermination()
