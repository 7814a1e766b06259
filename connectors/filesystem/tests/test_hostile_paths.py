"""Names that data, a checkpoint or a store decides lead to nothing outside of the directory that they are for."""

from __future__ import annotations

import uuid
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError, PenstockError
from penstock.metrics import Metrics
from penstock.sink import Kept, WriterContext
from penstock.storage import LocalStorage, S3Storage
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions
from penstock_filesystem.sink import BucketAssigner, create_sink
from penstock_filesystem.sink._committable import COMMITTABLE_SERIALIZER, WRITER_STATE_SERIALIZER, Chunk, PendingPart
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._rename import RenameCommitter, RenameStaging
from penstock_filesystem.source._cleaner import FileCleaner
from penstock_filesystem.source._split import FileSplit
from suite.hostile import PATHS, changed, files_below

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])

# --- what a checkpoint says -------------------------------------------------------------------------------------------


def part():
    return PendingPart(
        "rename", "bucket/a", 3, 1, hidden=".penstock/q/5/a", consumed=(".penstock/q/4/c",), marker=".penstock/q/5/m"
    )


def chunk():
    return Chunk("bucket", ".penstock/q/5/c", 3, 1, "json", ".json", "", 0, 0, 0)


STORED = [
    (words, serializer, stored)
    for serializer, value in ((COMMITTABLE_SERIALIZER, part()), (WRITER_STATE_SERIALIZER, chunk()))
    for words, stored in changed(serializer.pack(value))
]


def put_files(root):
    """A sink's directory with the files of one part and one chunk, and of others, which are not the query's."""
    there = [part().hidden, part().witness, chunk().path, part().consumed[0], "bucket/of-others", ".penstock/x/5/other"]
    for path in [*(root / name for name in there), root.parent / "victim", root.parent / "a" / "victim"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"abc")


@pytest.fixture
def directory(tmp_path):
    put_files(tmp_path / "sink")
    return tmp_path / "sink"


def roll(layout, chunks):
    attempt = WriterContext("q", SCHEMA, base=6, writer_index=0, attempt_id=uuid.uuid4().hex)
    staging = RenameStaging(layout, attempt, "roller")
    staging.join_to_chunk(chunks)
    part = staging.join_to_part(chunks, staging.names.final(chunks[0].bucket, chunks[0].extension))
    RenameCommitter(layout, "q", Metrics()).publish([part])


VERBS = {
    "look": lambda layout, committer, parts, chunks: committer.look(parts),
    "publish": lambda layout, committer, parts, chunks: committer.publish(parts),
    "seal": lambda layout, committer, parts, chunks: committer.seal(parts),
    "discard": lambda layout, committer, parts, chunks: committer.discard(parts, chunks),
    "are_there": lambda layout, committer, parts, chunks: committer.are_there(chunks),
    "clear": lambda layout, committer, parts, chunks: committer.clear(Kept(9, 0, parts, chunks)),
    "roll": lambda layout, committer, parts, chunks: roll(layout, chunks) if chunks else None,
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_changed_checkpoint_touches_nothing_of_others(directory, verb):
    """Whichever text of a committable or a chunk someone changes: also a field that is added later."""
    layout = Layout(LocalStorage(), str(directory), "part", "")
    committer = RenameCommitter(layout, "q", Metrics())
    before = files_below(directory.parent)
    of_others = [name for name in before if ".penstock/q" not in name]
    assert len(of_others) == 4
    for words, serializer, stored in STORED:
        try:
            made = serializer.unpack(stored)
            VERBS[verb](layout, committer, *(([made], []) if isinstance(made, PendingPart) else ([], [made])))
        except (PenstockError, FileNotFoundError):
            pass
        left = files_below(directory.parent)
        assert {name: left.get(name) for name in of_others} == {name: before[name] for name in of_others}, words
        outside = {name for name in left if not name.startswith("sink/")}
        assert outside == {"victim", "a/victim"}, words
        if left != before:
            put_files(directory)


@pytest.mark.parametrize("way", ["delete", "archive"])
@pytest.mark.parametrize("roots", [["in"], ["in/*/x", "in/y"], ["in/*.txt"]], ids=str)
@pytest.mark.parametrize("path", ["victim", "in/../victim", "in/x/../../victim", "inn/victim"])
def test_cleaning_moves_and_deletes_nothing_but_what_is_read(tmp_path, roots, path, way):
    (tmp_path / "in" / "x").mkdir(parents=True)
    (tmp_path / "inn").mkdir()
    victim = (tmp_path / path).resolve()
    victim.write_text("abc")
    info = victim.stat()
    archive = str(tmp_path / "old") if way == "archive" else None
    cleaner = FileCleaner(LocalStorage(), [str(tmp_path / root) for root in roots], archive, Metrics())
    cleaner.clean([FileSplit(f"{tmp_path}/{path}", info.st_mtime_ns, 3, 0, 3)])
    cleaner.close()
    assert victim.exists() and not (tmp_path / "old").exists()


# --- what data says ---------------------------------------------------------------------------------------------------


class ByName(BucketAssigner):
    """A user's own assigner, which takes a column's text as it is."""

    def __init__(self, options):
        pass

    def bucket_ids(self, batch, now_ms):
        return batch.column("name")


WAYS = {"columns": {"partitionColumns": "name"}, "own": {"bucketAssigner": f"{__name__}:ByName"}}
NAMES = [*PATHS, "a" * 255, "a" * 256, "ü" * 128, "/".join(["a" * 200] * 30), "_a", ".a", "a/_b", "a\nb", "a\\b", "="]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:30])
def test_a_row_gets_into_the_directory_or_is_refused_before_its_batch_is_decided(tmp_path, sink_query, way, name):
    query = sink_query(tmp_path / "sink", SCHEMA, tasks=1, format="json", rollOnCheckpoint="true", **WAYS[way])
    try:
        query.run([pa.RecordBatch.from_pylist([{"id": 1, "name": name}], schema=SCHEMA)])
    except BadDataError:
        assert way == "own" or len(name.encode()) > 200
        return
    (found,) = [name for name in files_below(tmp_path) if not name.startswith("sink/.penstock/")]
    pieces = found.split("/")
    assert pieces[0] == "sink" and not {piece[:1] for piece in pieces} & {".", "_"}
    if way == "columns":
        expected = name or "__HIVE_DEFAULT_PARTITION__"
        assert unquote(pieces[1]) == f"name={expected}" and len(pieces) == 3


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_every_value_of_a_partition_column_is_one_level_that_gives_it_back(value):
    assigner = _assigner(partitionColumns="name")
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": value}], schema=SCHEMA)
    (level,) = assigner.bucket_ids(batch, 0).to_pylist()
    assert "/" not in level and "\0" not in level and not level.startswith((".", "_"))
    assert unquote(level) == f"name={value or '__HIVE_DEFAULT_PARTITION__'}"


def _assigner(**options):
    return _sink(**options)._assigner


def _sink(**options):
    values = SINK_OPTIONS.parse({"path": "/nowhere", **options}, owner="sink")
    return create_sink(SinkOptions.from_values(values), SCHEMA)


# --- what options say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        *({name: text} for name in ("partPrefix", "partSuffix") for text in ("a\0b", "../x", "a" * 200, "ü" * 100)),
        {"path": "/a\0b"},
        {"partitionColumns": ".name"},
    ],
    ids=str,
)
def test_options_that_no_file_can_have_are_refused_at_once(options):
    schema = pa.schema([("id", pa.int64()), (".name", pa.string())])
    with pytest.raises(BadConfigurationError):
        _sink(**options).validate_schema(schema)


def test_s3_takes_what_a_key_may_have():
    layout = Layout(S3Storage({}), "bucket/out", "part", "")
    layout.check_bucket("a" * 800)
    with pytest.raises(BadDataError, match="takes 1024"):
        layout.check_bucket("a" * 1000)
