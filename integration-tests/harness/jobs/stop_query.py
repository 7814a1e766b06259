"""Lines of files to files: until the file ``stop`` is there, or with ``until=end`` all that there is."""

import os
import time

from harness.job import arguments, session

given = arguments()
spark = session(given, master="local[1]")
rows = spark.readStream.format("penstock.filesystem").schema("value string").option("format", "text").load("in/")
writer = rows.writeStream.format("penstock.filesystem").option("format", "text").option("path", "out/")
writer = writer.option("bucketAssigner", "basePath").option("checkpointLocation", "ck/")
if given["until"] == "end":
    writer.trigger(availableNow=True).start().awaitTermination()
else:
    query = writer.start()
    while not os.path.exists("stop"):
        assert query.isActive, query.exception()
        time.sleep(0.05)
    open("stopping", "w").close()
    query.stop()
