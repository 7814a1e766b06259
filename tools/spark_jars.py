"""Spark's own connectors, to compare ours with: their jars for the installed pyspark, fetched once by Maven.

::

    SparkSession.builder.config("spark.jars", ",".join(spark_kafka_jars()))
"""

from __future__ import annotations

from penstock.dev import JarSet, fetch_jars

__all__ = ["spark_avro_jars", "spark_kafka_jars"]

#: Without what comes with pyspark (Spark, Scala, Hadoop, the compression codecs). 4.2.0 runs on pyspark 4.2 and 4.3.
_KAFKA = JarSet(
    "spark-kafka-4.2.0",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    transitive=False,
)


_AVRO = JarSet("spark-avro-4.2.0", ("org.apache.spark:spark-avro_2.13:4.2.0",), transitive=False)


def spark_kafka_jars() -> list[str]:
    """The paths of the jars. Raises BadConfigurationError without Maven, FatalError if it can't fetch them."""
    return _paths(_KAFKA)


def spark_avro_jars() -> list[str]:
    """The paths of the jars of Avro files. Raises as :func:`spark_kafka_jars`."""
    return _paths(_AVRO)


def _paths(jars: JarSet) -> list[str]:
    return sorted(str(path) for path in fetch_jars(jars).iterdir())
