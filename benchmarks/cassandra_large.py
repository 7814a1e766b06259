"""A table of ten million rows, read split by split in a process of its own, as a task would: its memory, its splits."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa

from benchmarks.measuring import OURS, Measurement
from penstock.metrics import Metrics
from penstock.options import OptionSet
from penstock.sink import SinkContext, WriterContext
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import Client
from penstock_cassandra.dev import CassandraServer

#: What a task does, in a fresh process, for all splits one after the other. Peak memory as Linux counted it.
_TASK = """
import json, sys
from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator
from penstock_cassandra import CassandraConnector
connector = CassandraConnector()
source = connector.create_source(connector.source_options.parse(json.loads(sys.argv[1]), owner="bench"))
schema = source.fixed_schema()
splits = list(source.list_splits(Coordinator()))
sizes, rows = [], 0
for split in splits:
    size = 0
    for batch in SourceReader(source, ReaderContext(schema, Metrics())).read([split]):
        size += batch.nbytes
        rows += batch.num_rows
    sizes.append(size)
# Not getrusage: its peak counts what the process was before it became this one.
(peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(json.dumps({"rows": rows, "sizes": sizes, "peak_mb": int(peak) / 1024}))
"""


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
    command = [sys.executable, "-c", _TASK, json.dumps(options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["rows"] == rows, found["rows"]
    sizes = [size / (split_mb << 20) for size in found["sizes"]]
    words = f"{rows:,} rows in {len(sizes)} splits of {split_mb} MiB"
    return [
        Measurement(f"{words}: most memory of a task", "MB", "less", {OURS: [found["peak_mb"]]}),
        Measurement(f"{words}: their sizes in Arrow", "times what was asked for", "less", {OURS: sizes}),
    ]
