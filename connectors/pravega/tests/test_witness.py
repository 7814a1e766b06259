"""Pravega's published client reads what we write, and we read what it writes: transactions included."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.metrics import Metrics
from penstock.sink import CheckpointLocation, SinkContext, WriterContext
from penstock.storage import LocalStorage
from penstock_pravega.options import SINK_OPTIONS, SinkOptions
from penstock_pravega.sink import create_sink

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pravega_client") is None,
    reason="the package pravega is not installed: it has wheels up to Python 3.11",
)

SCHEMA = pa.schema([("routing_key", pa.string()), ("value", pa.binary())])


def witness(pravega, stream, what, count=0):
    command = [sys.executable, Path(__file__).with_name("witness.py"), pravega.address.removeprefix("tcp://")]
    command += [pravega.scope, stream, what, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def in_order(events):
    """Returns the numbers of the events by kind and routing key."""
    found = defaultdict(list)
    for event in events:
        kind, number = event.decode().split()
        found[kind, int(number) % 5].append(int(number))
    return dict(found)


def all_of(**counts):
    return {(kind, key): list(range(key, count, 5)) for kind, count in counts.items() for key in range(5)}


@pytest.mark.budget(10)
def test_we_read_what_it_writes(pravega, pravega_source):
    stream = pravega.create_stream(segments=3)
    witness(pravega, stream, "write")
    source = pravega_source(stream=stream)
    rows = source.read(source.list_splits())
    assert in_order(row["value"] for row in rows) == all_of(plain=200, committed=50)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_it_reads_what_we_write(pravega, tmp_path, delivery):
    stream = pravega.create_stream(segments=3)
    given = {"controller": pravega.address, "scope": pravega.scope, "stream": stream, "delivery": delivery}
    options = SinkOptions.from_values(SINK_OPTIONS.parse(given, owner="sink penstock.pravega"))
    checkpoint = CheckpointLocation(LocalStorage(), str(tmp_path))
    context = SinkContext("query", SCHEMA, Metrics(), checkpoint)
    sink = create_sink(options, SCHEMA).start(context)
    for kind in ("aborted", "committed", "open"):
        writer = sink.create_writer(WriterContext("query", SCHEMA, Metrics(), checkpoint, attempt_id=kind, base=0))
        values = [f"{kind} {number}".encode() for number in range(300)]
        writer.write(pa.record_batch([[f"key {number % 5}" for number in range(300)], values], schema=SCHEMA))
        writer.flush()
        if delivery == "at-least-once":
            writer.close()
            continue
        prepared = writer.prepare_commit()
        writer.close()
        committer = sink.create_committer(context)
        if kind == "committed":
            committer.publish(prepared.committables)
        elif kind == "aborted":
            committer.seal(prepared.committables)
    visible = {"committed": 300} if delivery == "exactly-once" else dict.fromkeys(("aborted", "committed", "open"), 300)
    found = [bytes.fromhex(event) for event in json.loads(witness(pravega, stream, "read", sum(visible.values())))]
    assert in_order(found) == all_of(**visible)
