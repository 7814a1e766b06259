"""``df.write`` of 2,000 rows to Parquet files; arguments are options of the sink."""

from harness.job import arguments, session

given = arguments()
spark = session(given, log="OFF")
writer = spark.range(0, 2000, 1, 2).write.format("penstock.filesystem").mode("append").option("format", "parquet")
writer.option("path", "out/").options(**given).save()
