"""What outlives a process: decisions, offsets, states, committables, what a checkpoint says of itself."""

from __future__ import annotations

import base64
import json
import tempfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock._commit import Chain, Link
from penstock._commit._chain import LinkKind, StateItem, TaskOutput
from penstock.checkpoint._damage import damage_of
from penstock.checkpoint._groups import Prepared, members_of, remember_group
from penstock.checkpoint._identity import open_identity
from penstock.checkpoint._stored import load_sink, query_id_of
from penstock.cli import _dashboard
from penstock.cli._checkpoint import CheckpointView, _read_offsets
from penstock.options import held_by_checkpoint
from penstock.serialization import SimpleVersionedSerializer, Versioned
from penstock.sink import CheckpointLocation
from penstock.sink._write_ahead import Segment, Staged
from penstock.spark._offsets import StreamOffset, is_final_batch, is_last_batch, pack_splits
from penstock.storage import LocalStorage, MemoryStorage
from penstock_filesystem import FileSystemConnector
from penstock_filesystem.source._schema_location import SCHEMA_SERIALIZER, SchemaLocation
from penstock_filesystem.source._split import SPLIT_SERIALIZER, FileSplit
from penstock_filesystem.source.tracking._run_store import RunStore
from penstock_filesystem.source.tracking._sketch import SetSketch

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "core/tests/golden"


def golden(*names: str) -> list[bytes]:
    """Returns golden files of the tests."""
    return [(ROOT / name).read_bytes() for name in names]


def forms(data: bytes) -> list[bytes]:
    """Returns the forms in a file that has one in each line, or only one."""
    try:
        json.loads(data)
    except ValueError:
        return data.splitlines()
    return [data]


def stored(paths: Sequence[str]) -> list[bytes]:
    """Returns what is in golden files that hold a version and base64, with the version as the first byte."""
    found = [Versioned.from_json(json.loads(text)) for text in golden(*paths)]
    return [bytes([one.version]) + one.data for one in found]


def read_form(serializer: SimpleVersionedSerializer[Any], data: bytes) -> object:
    """Reads a stored form: its first byte is the version."""
    return serializer.unpack(Versioned(data[0] if data else 1, data[1:]))


def reader_of(serializer: SimpleVersionedSerializer[Any]) -> Callable[[bytes], object]:
    """Returns what reads its forms."""
    return partial(read_form, serializer)


def packed_state(head: bytes, rest: bytes = b"") -> bytes:
    """Returns a state of the file source."""
    packed = zlib.compress(head)
    return b"\x02" + len(packed).to_bytes(4, "little") + packed + rest


def no_objects() -> list[bytes]:
    """Returns what is not an object of JSON, or holds nothing."""
    return [b"", b"[]", b"{}", b"5", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"9" * 5000]


def no_forms() -> list[bytes]:
    """Returns the same with a version before it, and a version that is not known."""
    return [bytes([1]) + data for data in no_objects()] + [b"\xff{}", b"\0{}"]


def no_states() -> list[bytes]:
    """Returns states of the file source whose parts are not there."""
    whole = {
        "newest": 0,
        "runs": [],
        "place": None,
        "commits": 0,
        "replaced": [],
        "rest": None,
        "returned": [],
        "edge": None,
    }
    changes: list[dict[str, Any]] = [{"newest": 1 << 40}, {"newest": -1}, {"runs": [[None, 5]]}, {"runs": [[None, -5]]}]
    heads = [json.dumps(whole | change).encode() for change in changes]
    return [*no_forms(), *(packed_state(head, bytes(8)) for head in heads), b"\x02\xff\xff\xff\xff"]


def link_seeds() -> list[bytes]:
    """Returns decisions of both editions."""
    one = Versioned(1, b'{"a": 1}')
    output = TaskOutput(0, "attempt", ("s0",), (one,), (StateItem("s1", one),), 3)
    link = Link(4, LinkKind.BATCH, 4, offsets=b"v1\n{}\n-\n", states=(StateItem("s", one),), outputs=(output,))
    second, first = golden("core/tests/golden/link-v2.json", "core/tests/golden/decision-v1.json")
    return [second, first, json.dumps({**json.loads(first), "redo": []}).encode(), link.to_bytes()]


def read_link(data: bytes) -> object:
    """Reads the only link of a decision log."""
    storage = MemoryStorage()
    storage.files["c/decisions/00000000000000000004.json"] = data
    return Chain(storage, "c/decisions").head()


_SPLITS = [FileSplit(f"/data/part-{n}", 1, 10, 0, 10) for n in range(5)]


def find_damage(data: bytes) -> object:
    """Looks at a checkpoint whose last files of Spark's hold ``data``: each is named, or is well."""
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as folder:
        for name in ("offsets", "commits"):
            Path(folder, name).mkdir()
            Path(folder, name, "0").write_bytes(data)
        return [str(error) for error in damage_of(LocalStorage(), folder)]


def offset_seeds() -> list[bytes]:
    """Returns offsets of a stream."""
    state = Versioned(1, b'{"positions":{"t":{"0":5}},"ids":{"t":"x"}}')
    one = StreamOffset(
        3, state, pack_splits(_SPLITS, SPLIT_SERIALIZER), 5, 50, end=True, options={"format": "csv", "paths": "[1]"}
    )
    return [
        *golden("core/tests/golden/offset-v1.json", "core/tests/golden/offset-v1-options.json"),
        json.dumps(one.to_json()).encode(),
    ]


def read_offset(data: bytes) -> object:
    """Reads an offset and its splits. Spark has parsed the JSON: it is one."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "penstock" not in value:
        return None
    offset = StreamOffset.from_json(value)
    options = FileSystemConnector().source_options
    assert options is not None
    values = options.parse({"path": "/in", "format": "csv", "paths": '["/in"]'}, owner="source")
    held_by_checkpoint(values, offset.options, owner="source")
    return offset.unpack_splits(SPLIT_SERIALIZER)


def packed_split_seeds() -> list[bytes]:
    """Returns the splits of an offset, before they are deflated."""
    return [zlib.decompress(pack_splits(_SPLITS, SPLIT_SERIALIZER).data)]


def refused_splits() -> list[bytes]:
    """Returns splits that are cut off."""
    return [packed_split_seeds()[0][:-3], b"\xff\xff\xff\xff[]", b"\0"]


def read_packed_splits(data: bytes) -> object:
    """Reads splits as they are before they are deflated."""
    splits = Versioned(SPLIT_SERIALIZER.version, zlib.compress(data))
    return StreamOffset(1, None, splits).unpack_splits(SPLIT_SERIALIZER)


def log_seeds() -> list[bytes]:
    """Returns Spark's file of a batch."""
    about = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": {}}
    lines = [b"v1", json.dumps(about).encode(), offset_seeds()[-1], b"-"]
    return [b"\n".join(lines), b'v1\n{}\n{"t":{"0":5}}']


def odd_logs() -> list[bytes]:
    """Returns logs that hold anything but offsets."""
    return [b"v1\n{}\n" + data for data in no_objects()] + ["v1\n{}\n\u2028".encode() + b"\n"]


def read_log(data: bytes) -> object:
    """Reads Spark's file of a batch, as the decision does."""
    return is_last_batch(data), is_final_batch(data)


def place_seeds() -> list[bytes]:
    """Returns where a checkpoint is."""
    storage = MemoryStorage()
    open_identity(storage, "c", "query")
    return [storage.files["c/penstock/place.json"]]


def inspect(data: bytes) -> object:
    """Reads Spark's file of a batch, as the command does that shows it."""
    view = CheckpointView(checkpoint="c", query_id="query")
    _read_offsets(view, data.decode("utf-8", "replace"))
    return view.sources


def read_place(data: bytes) -> object:
    """Reads where a checkpoint is."""
    storage = MemoryStorage()
    storage.files["c/penstock/place.json"] = data
    return open_identity(storage, "c", "query")


def metadata_seeds() -> list[bytes]:
    """Returns Spark's file with the id of a query."""
    return golden("core/tests/golden/checkpoint-v1/metadata")


def read_metadata(data: bytes) -> object:
    """Reads the id of a query."""
    storage = MemoryStorage()
    storage.files["c/metadata"] = data
    return query_id_of(storage, "c")


def sink_seeds() -> list[bytes]:
    """Returns what a query's sink is."""
    schema = base64.b64encode(pa.schema([("a", pa.int64()), ("b", pa.string())]).serialize().to_pybytes()).decode()
    options = {"path": "/tmp/penstock-fuzz", "format": "parquet"}
    return [json.dumps({"format": 1, "connector": "filesystem", "options": options, "schema": schema}).encode()]


def read_sink(data: bytes) -> object:
    """Reads what a query's sink is."""
    storage = MemoryStorage()
    storage.files["c/penstock/sink.json"] = data
    return load_sink(storage, "c/penstock/sink.json", None)


def group_seeds() -> list[bytes]:
    """Returns the members of a group."""
    storage = MemoryStorage()
    remember_group(storage, "c", ["first", "second"])
    return [storage.files["c/penstock/group.json"]]


def read_group(data: bytes) -> object:
    """Reads the members of a group."""
    storage = MemoryStorage()
    storage.files["c/penstock/group.json"] = data
    return members_of(storage, "c")


def prepared_seeds() -> list[bytes]:
    """Returns what the tasks of a write have left for the decision of a group."""
    storage = MemoryStorage()
    form = Versioned(1, b"{}")
    output = TaskOutput(0, "a", committables=(form,), states=(StateItem("s", form),), sequences_used=3)
    Prepared(storage, "c").put("plan", "first", [output], {"rows_written": 3})
    return list(storage.files.values())


def read_prepared(data: bytes) -> object:
    """Reads what the tasks of a write have left."""
    storage = MemoryStorage()
    Prepared(storage, "c").put("plan", "first", [], {})
    (path,) = storage.files
    storage.files[path] = data
    return Prepared(storage, "c").get("plan", "first")


def schema_seeds() -> list[bytes]:
    """Returns a stored schema."""
    nested = pa.struct([("x", pa.list_(pa.decimal128(9, 2))), ("y", pa.map_(pa.string(), pa.timestamp("us", "UTC")))])
    return [pa.schema([("a", pa.int64()), ("b", nested)]).serialize().to_pybytes()]


def read_schema(data: bytes) -> object:
    """Reads a stored schema, in what a sink is."""
    value = json.loads(sink_seeds()[0]) | {"schema": base64.b64encode(data).decode()}
    return read_sink(json.dumps(value).encode())


def staged_seeds() -> list[bytes]:
    """Returns the rows of a segment that is staged."""
    storage = MemoryStorage()
    rows = pa.RecordBatch.from_pylist([{"a": n, "b": "x" * n, "c": [n] * 3} for n in range(50)])
    Staged(CheckpointLocation(storage, "c")).write("s", [rows, rows])
    return [storage.files["c/penstock/staged/s.arrow"]]


def read_staged(data: bytes) -> int:
    """Reads the rows of a segment, all of them."""
    storage = MemoryStorage()
    segment = Segment(1, 0, "a", 0, 100, 1000, 3)
    storage.files[f"c/penstock/staged/{segment.id}.arrow"] = data
    batches = list(Staged(CheckpointLocation(storage, "c")).read(segment))
    for batch in batches:
        batch.validate(full=True)
    return sum(batch.num_rows for batch in batches)


def run_seeds() -> list[bytes]:
    """Returns a file of fingerprints."""
    return [b"penstock seen files 1\n" + bytes(range(80))]


def read_run(data: bytes) -> object:
    """Reads a file of ten fingerprints."""
    storage = MemoryStorage()
    storage.files["c/1-a.run"] = data
    return RunStore(storage, "c").read("1-a.run", 10)


def columns_seeds() -> list[bytes]:
    """Returns a schema that a stream has had."""
    names = {"a": pa.int64(), "b c": pa.list_(pa.struct([("x", pa.decimal128(6, 2))]))}
    return [SCHEMA_SERIALIZER.serialize(pa.schema(list(names.items())))]


def refused_columns() -> list[bytes]:
    """Returns one that is cut off, and one of a later edition."""
    return [columns_seeds()[0][:-1], columns_seeds()[0].replace(b'"version":1', b'"version":7')]


def read_columns(data: bytes) -> object:
    """Reads a schema that a stream has had."""
    storage = MemoryStorage()
    storage.files["s/schema-000000.json"] = data
    return SchemaLocation(storage, "s").latest()


def sketch_seeds() -> list[bytes]:
    """Returns a sketch of a set."""
    sketch = SetSketch()
    sketch.add(range(1 << 60, (1 << 60) + 40))
    return [sketch.to_bytes()]


def refused_sketches() -> list[bytes]:
    """Returns a sketch that is cut off."""
    return [sketch_seeds()[0][:-1], b"a"]


def read_sketch(data: bytes) -> object:
    """Reads how a sketch differs from another set."""
    return SetSketch.from_bytes(data).difference(range(1 << 60, (1 << 60) + 30))


def progress_seeds() -> list[bytes]:
    """Returns lines of a run's progress."""
    progress = {"batchId": 1, "numInputRows": 5, "timestamp": "2024-01-01T00:00:00.000Z", "durationMs": {}}
    batch = {"batch": 1, "rows": 5, "at": "2024-01-01T00:00:00Z"}
    reported = {
        "backlog": {"records": 3, "t-0": 3, "tracked_x": 1},
        "metrics": {"retries": 1},
        "eventTime": {"idle": []},
    }
    sources = [
        {"numInputRows": 5, "latestOffset": json.dumps(reported), "metrics": {"maxOffsetsBehindLatest": "4"}},
        {"numInputRows": 5, "latestOffset": reported},
    ]
    whole = {**progress, "batchDuration": 5, "sources": sources}
    return [
        json.dumps(progress).encode() + b"\n" + json.dumps(batch).encode() + b'\n{"state": "ended"}\n',
        json.dumps(whole).encode() + b"\n",
    ]


def read_progress(data: bytes) -> object:
    """Draws a run's progress."""
    return _dashboard.page(_dashboard.read_run(data.decode("utf-8", "replace").split("\n")), "title")
