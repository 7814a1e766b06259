"""Spark's own Kafka connector, to run beside ours: its jars for the installed pyspark, fetched once by Maven.

::

    SparkSession.builder.config("spark.jars", ",".join(spark_kafka_jars()))
"""

from __future__ import annotations

from penstock.dev import JarSet, fetch_jars

#: Without what comes with pyspark (Spark, Scala, Hadoop, the compression codecs). 4.2.0 runs on pyspark 4.2 and 4.3.
JARS = JarSet(
    "spark-kafka-4.2.0",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    transitive=False,
)


def spark_kafka_jars() -> list[str]:
    """The paths of the jars. Raises BadConfigurationError without Maven, FatalError if it can't fetch them."""
    return sorted(str(path) for path in fetch_jars(JARS).iterdir())
