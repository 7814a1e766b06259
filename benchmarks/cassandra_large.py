"""A table of ten million rows, read split by split in a process of its own, as a task would: its memory, its splits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measuring import OURS, Measurement
from penstock.metrics import Metrics
from penstock.options import OptionSet
from penstock.sink import SinkContext, WriterContext
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import Client
from penstock_cassandra.dev import CassandraServer

_JOB = Path(__file__).parent / "cassandra_jobs" / "scan_job.py"


def fill(client: Client, options: dict[str, str], rows: int) -> None:
    """Wide partitions of 1,000 rows."""
    schema = pa.schema([("k", pa.int64()), ("n", pa.int32()), ("v", pa.string())])
    given = {**options, "batchGrouping": "partition", "maxInFlight": "64", "delivery": "at-least-once"}
    connector = CassandraConnector()
    declared: OptionSet | None = connector.sink_options
    assert declared is not None
    sink: Any = connector.create_sink(declared.parse(given, owner="bench"), schema)
    sink = sink.start(SinkContext("bench", schema))
    writer = sink.create_writer(WriterContext("bench", schema, Metrics(), attempt_id="bench"))
    numbers, text = pa.array(range(1000), pa.int32()), pa.array(["v" * 40 + str(n) for n in range(1000)])
    for key in range(0, rows // 1000, 10):
        keys = pa.array([key + n // 1000 for n in range(10_000)], pa.int64())
        columns = [keys, pa.concat_arrays([numbers] * 10), pa.concat_arrays([text] * 10)]
        writer.write(pa.record_batch(columns, schema=schema))
    writer.flush()
    writer.close()


def measure(server: CassandraServer, client: Client, keyspace: str, rows: int, split_mb: int = 16) -> list[Measurement]:
    """Most memory of the process that reads it (MB), and how far the splits are from the size asked for (times)."""
    client.rows(f"create table {keyspace}.large (k bigint, n int, v text, primary key (k, n))")
    host, _, port = server.address.rpartition(":")
    options = {"host": host, "port": port, "keyspace": keyspace, "table": "large", "maxSplitSize": f"{split_mb}mb"}
    fill(client, {name: text for name, text in options.items() if name != "maxSplitSize"}, rows)
    server.nodetool("flush", keyspace)
    server.nodetool("compact", keyspace, "large")
    server.nodetool("refreshsizeestimates")
    command = [sys.executable, str(_JOB), json.dumps(options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["rows"] == rows, found["rows"]
    sizes = [size / (split_mb << 20) for size in found["sizes"]]
    words = f"{rows:,} rows in {len(sizes)} splits of {split_mb} MiB"
    return [
        Measurement(f"{words}: most memory of a task", "MB", "less", {OURS: [found["peak_mb"]]}),
        Measurement(f"{words}: their sizes in Arrow", "times what was asked for", "less", {OURS: sizes}),
    ]
