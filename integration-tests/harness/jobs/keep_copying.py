"""A stream from one system to another, until it is ended: ``spec=spec.json``, as a user would write it.

The spec is ``{"source": {"format", "options", "schema"}, "columns": [...], "sink": {"format", "options"}}``; ``schema``
may be missing, ``columns`` are those of the sink.
"""

import json

from harness.job import arguments, session

given = arguments()
with open(given.pop("spec")) as file:
    spec = json.load(file)
source, sink = spec["source"], spec["sink"]
spark = session(given, master="local[2,4]")
reader = spark.readStream.format(source["format"]).options(**source["options"])
rows = (reader.schema(source["schema"]) if "schema" in source else reader).load().selectExpr(*spec["columns"])
writer = rows.writeStream.format(sink["format"]).options(**sink["options"]).option("checkpointLocation", "ck/")
writer.trigger(processingTime="0 seconds").start().awaitTermination()
