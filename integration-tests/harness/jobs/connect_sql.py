"""Each line of docs/sql.md by Spark Connect: server, folder. Prints what differs, by line, as JSON."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from harness.job import arguments
from harness.sql import LINES, prepare, problem_of

given = arguments()
spark = SparkSession.builder.remote(given["server"]).getOrCreate()
penstock.register(spark)
problems = {}
for number, (name, line) in enumerate(LINES.items()):
    folder = Path(given["folder"]) / str(number)
    prepare(folder)
    problems[name] = problem_of(line, spark, folder)
print(json.dumps({name: problem for name, problem in problems.items() if problem}))
