"""One of several tasks of ours, as in a worker that is used again: says "ready", waits for a line, works, says "done".

Arguments: ``read`` or ``write``, address, scope, stream, number of this task, number of tasks, events of all tasks
together, bytes of an event.
"""

from __future__ import annotations

import sys
import uuid

import pyarrow as pa

from penstock.metrics import Metrics
from penstock.sink import SinkContext, WriterContext
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator
from penstock_pravega.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions
from penstock_pravega.sink import PravegaTransactionalSink, create_sink
from penstock_pravega.source import PravegaSource

WHAT, ADDRESS, SCOPE, STREAM = sys.argv[1:5]
TASK, TASKS, EVENTS, SIZE = map(int, sys.argv[5:])
BATCH = 10_000


def read() -> None:
    """The share of this task, as Arrow batches."""
    options = {"controller": ADDRESS, "scope": SCOPE, "stream": STREAM}
    source = PravegaSource(SourceOptions.from_values(SOURCE_OPTIONS.parse(options, owner="bench")))
    schema = source.fixed_schema()
    assert schema is not None
    source.validate_schema(schema)
    splits = list(source.list_splits(Coordinator()))[TASK::TASKS]
    _ready()
    for _ in SourceReader(source, ReaderContext(schema, Metrics())).read(splits):
        pass
    print("done", flush=True)


def write() -> None:
    """Writes in a transaction until everything is acknowledged. It is not committed."""
    options = {"controller": ADDRESS, "scope": SCOPE, "stream": STREAM, "delivery": "exactly-once"}
    schema = pa.schema([("routing_key", pa.string()), ("value", pa.binary())])
    context = SinkContext("bench", schema)
    made = create_sink(SinkOptions.from_values(SINK_OPTIONS.parse(options, owner="bench")), schema)
    assert isinstance(made, PravegaTransactionalSink)
    sink = made.start(context)
    batch = pa.record_batch([[f"key-{n % 1000}" for n in range(BATCH)], [b"x" * SIZE] * BATCH], schema=schema)
    writer = sink.create_writer(WriterContext("bench", schema, Metrics(), attempt_id=uuid.uuid4().hex))
    _ready()
    for _ in range(EVENTS // TASKS // BATCH):
        writer.write(batch)
    prepared = writer.prepare_commit()
    print("done", flush=True)
    writer.close()
    committer = sink.create_committer(context)
    committer.discard(prepared.committables, [])
    committer.close()


def _ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    {"read": read, "write": write}[WHAT]()
