"""Options of spark-cassandra-connector, with what this connector calls them."""

from __future__ import annotations

__all__ = ["NOT_READ", "NOT_WRITTEN"]

_CONNECTION = {
    "cluster": "name some of its nodes as host",
    "spark.cassandra.connection.host": "it is called host here",
    "spark.cassandra.connection.port": "it is called port here",
    "spark.cassandra.connection.localDC": "it is called localDatacenter here",
    "spark.cassandra.connection.config.cloud.path": "it is called bundle here",
    "spark.cassandra.connection.timeoutMS": "it is called connectTimeout here, and takes a duration such as 5s",
    "spark.cassandra.read.timeoutMS": "it is called requestTimeout here, and takes a duration such as 2m",
    "spark.cassandra.query.retry.count": "retryTimeout says how long a call is tried again, not how often",
    "spark.cassandra.auth.username": "it is called user here",
    "spark.cassandra.auth.password": "it is called password here",
    "spark.cassandra.connection.ssl.enabled": "it is called tls here",
    "spark.cassandra.connection.ssl.trustStore.path": "write the certificates as PEM, and name that file in tls.caFile",
    "spark.cassandra.connection.ssl.keyStore.path": "write certificate and key as PEM, and name that file in "
    "tls.certFile",
}
#: For the source.
NOT_READ = {
    **_CONNECTION,
    "pushdown": "leave it out: spark.sql.python.filterPushdown.enabled turns it on for the session",
    "spark.cassandra.input.consistency.level": "it is called consistency here",
    "spark.cassandra.input.split.sizeInMB": "it is called maxSplitSize here, and takes a size such as 64mb",
    "spark.cassandra.input.fetch.sizeInRows": "it is called pageRows here",
    "spark.cassandra.concurrent.reads": "it is called maxInFlight here",
}
#: For the sink.
NOT_WRITTEN = {
    **_CONNECTION,
    "confirm.truncate": "leave it out: rows are added, and no table is emptied",
    "spark.cassandra.output.consistency.level": "it is called consistency here",
    "spark.cassandra.output.ttl": "it is called ttl here",
    "spark.cassandra.output.timestamp": "it is called timestamp here",
    "spark.cassandra.output.ignoreNulls": "set nulls to unset",
    "spark.cassandra.output.ifNotExists": "it is called ifNotExists here",
    "spark.cassandra.output.concurrent.writes": "it is called maxInFlight here",
    "spark.cassandra.output.batch.size.bytes": "it is called batchBytes here",
    "spark.cassandra.output.batch.size.rows": "set batchBytes, which counts bytes",
    "spark.cassandra.output.batch.grouping.key": "it is called batchGrouping here, with replica for replica_set",
    "spark.cassandra.output.throughputMBPerSec": "set maxRowsPerSecond, which counts rows",
}
