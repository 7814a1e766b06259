"""The file sink in the commit protocol, on every kind of store: what other processes and readers do beside it."""

from __future__ import annotations

import errno
import json
import pickle
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError

from penstock._commit import GaveWayError
from penstock.sink import WriterContext
from penstock.spark._write import BatchWriter
from penstock.testing import SinkQuery
from penstock.testing._sink_base import query_crashing
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions
from penstock_filesystem.sink import create_sink
from penstock_filesystem.sink.staging import (
    BlockStaging,
    MoveStaging,
    MultipartCommitter,
    MultipartStaging,
    RenameStaging,
)
from suite.azure import AzureServer
from suite.gcs import GcsServer

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
#: Steps of a driver: the decision is durable and nothing of it was done; everything was done and not noted.
DECIDED, PUBLISHED = "after create", "before put "


@dataclass
class Disk:
    folder: Path

    @property
    def options(self) -> dict[str, str]:
        return {"path": str(self.folder)}

    def files(self, *, hidden: bool) -> list[Path]:
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        return sorted(path for path in found if (".penstock" in path.parts) == hidden)

    def visible(self) -> list[int]:
        return sorted(json.loads(line)["id"] for path in self.files(hidden=False) for line in path.open())

    def hidden(self) -> list[Path]:
        return self.files(hidden=True)

    def take(self) -> list[int]:
        """What a reader does that removes what it has read."""
        ids = self.visible()
        for path in self.files(hidden=False):
            path.unlink()
        return ids


@dataclass
class Bucket:
    url: str
    name: str
    client: Any
    settings: dict[str, str]

    @property
    def options(self) -> dict[str, str]:
        return {"path": self.url, **self.settings}

    def keys(self, *, hidden: bool) -> list[str]:
        found = [entry["Key"] for entry in self.client.list_objects_v2(Bucket=self.name).get("Contents", [])]
        return [key for key in found if ("/.penstock/" in key) == hidden]

    def visible(self) -> list[int]:
        bodies = [
            self.client.get_object(Bucket=self.name, Key=key)["Body"].read().splitlines()
            for key in self.keys(hidden=False)
        ]
        return sorted(json.loads(line)["id"] for lines in bodies for line in lines)

    def hidden(self) -> list[str]:
        uploads = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return [*self.keys(hidden=True), *(upload["Key"] for upload in uploads)]

    def take(self) -> list[int]:
        ids = self.visible()
        for key in self.keys(hidden=False):
            self.client.delete_object(Bucket=self.name, Key=key)
        return ids


@pytest.fixture
def bucket(s3_path, s3_server):
    return Bucket(*s3_path, s3_server.options())


@dataclass
class Container:
    server: AzureServer
    name: str

    @property
    def options(self) -> dict[str, str]:
        return {"path": f"{self.server.url(self.name)}/out", **self.server.options()}

    @property
    def client(self) -> Any:
        return self.server.client.get_container_client(self.name)

    def names(self, *, hidden: bool) -> list[str]:
        return [name for name in self.client.list_blob_names() if ("/.penstock/" in name) == hidden]

    def visible(self) -> list[int]:
        bodies = [self.client.download_blob(name).readall().splitlines() for name in self.names(hidden=False)]
        return sorted(json.loads(line)["id"] for lines in bodies for line in lines)

    def hidden(self) -> list[str]:
        """Without blocks that are not committed: the store itself discards them."""
        return self.names(hidden=True)

    def take(self) -> list[int]:
        ids = self.visible()
        for name in self.names(hidden=False):
            self.client.delete_blob(name)
        return ids


@pytest.fixture
def container(azure_server):
    return Container(azure_server, azure_server.new_container())


@dataclass
class Objects:
    """A bucket of Google's."""

    server: GcsServer
    name: str

    @property
    def options(self) -> dict[str, str]:
        return {"path": f"{self.server.url(self.name)}/out", **self.server.options()}

    def names(self, *, hidden: bool) -> list[str]:
        return [path for path in self.server.storage().list_tree(self.name) if ("/.penstock/" in path) == hidden]

    def visible(self) -> list[int]:
        bodies = [self.server.storage().read(path).splitlines() for path in self.names(hidden=False)]
        return sorted(json.loads(line)["id"] for lines in bodies for line in lines)

    def hidden(self) -> list[str]:
        return self.names(hidden=True)

    def take(self) -> list[int]:
        ids = self.visible()
        self.server.storage().delete(self.names(hidden=False))
        return ids


@pytest.fixture
def objects(gcs_server):
    return Objects(gcs_server, gcs_server.new_bucket())


@pytest.fixture(params=["disk", "S3", "azure", "gcs"])
def target(request, tmp_path):
    fixture = {"S3": "bucket", "azure": "container", "gcs": "objects"}.get(request.param)
    return request.getfixturevalue(fixture) if fixture else Disk(tmp_path / "out")


def staging_of(target):
    ways = {Disk: RenameStaging, Bucket: MultipartStaging, Container: BlockStaging, Objects: MoveStaging}
    return ways[type(target)]


@pytest.fixture
def new_query(tmp_path):
    """A query on ``target``; the next one is another process of it."""
    made = []

    def make(target, **options):
        texts = {"format": "json", "bucketAssigner": "basePath", **target.options, **options}
        sink = create_sink(SinkOptions.from_values(SINK_OPTIONS.parse(texts, owner="sink")), SCHEMA)
        before = (made[0].query_id, made[0].done) if made else ()
        made.append(SinkQuery(sink, SCHEMA, tmp_path / "checkpoint", *before))
        return made[-1]

    return make


def rows(*ids, width=0):
    return pa.record_batch([ids, [f"{i:0{width}d}" for i in ids]], schema=SCHEMA)


def attempts(query, plan, batch_id, *shares):
    return [query.attempt(plan, batch_id, writer, [share]) for writer, share in enumerate(shares)]


def test_what_a_reader_takes_away_before_it_is_noted_is_not_written_again(target, new_query):
    query = new_query(target, rollOnCheckpoint="true")
    query.run(0, [[rows(0)]])
    results = query.tasks(1, [[rows(1)], [rows(2)]])
    with query_crashing(query, PUBLISHED):
        query.commit(1, results)
    read = target.take()
    query.restart()
    query.run_all([[], [[rows(1)], [rows(2)]], [[rows(3)]]])
    assert read == [0, 1, 2] and target.visible() == [3]


def test_nothing_is_published_where_a_part_is_lost(target, new_query):
    """And the batch is written again, with nothing to be done by hand."""
    query = new_query(target, rollOnCheckpoint="true")
    results = query.tasks(0, [[rows(1)], [rows(2)], [rows(3)]])
    with query_crashing(query, DECIDED):
        query.commit(0, results)
    (lost,) = results[2].outputs[0].committables
    sink = query.sink
    committer = sink.create_committer(query.protocol()._context)
    committer.seal([sink.committable_serializer.unpack(lost)])
    query.restart()
    plan = query.plan(0)
    assert target.visible() == []
    query.commit(0, attempts(query, plan, 0, rows(1), rows(2), rows(3)))
    assert target.visible() == [1, 2, 3]
    query.finish()
    assert target.hidden() == []


@pytest.mark.parametrize(
    ("batches", "options"), [(1, {"inactivityInterval": "0s"}), (3, {"maxOpenChunks": "2"})], ids=["due", "too many"]
)
def test_a_roll_beside_a_running_batch_takes_nothing_from_its_tasks(target, new_query, batches, options):
    """They merge what the listener, or ``penstock finish``, has published since the batch was planned."""
    query = new_query(target, **options)
    for number in range(batches):
        query.run(number, [[rows(number)]])
    plan = query.plan(batches)
    assert new_query(target, **options).protocol().roll(finish=True) is not None
    published = target.visible()
    assert published == list(range(batches))
    results = attempts(query, plan, batches, rows(batches))
    assert any(output.consumed for result in results for output in result.outputs), "the task has merged"
    query.commit(batches, results)
    query.finish()
    assert target.visible() == [*published, batches] and target.hidden() == []


@pytest.mark.parametrize("width", [1, 6_000_000], ids=["small", "copied in the store"])
def test_a_roll_whose_chunks_go_under_its_hands_gives_way(target, new_query, monkeypatch, width):
    """A batch was quicker, and has cleared away what it had replaced."""
    query = new_query(target)
    query.run(0, [[rows(0, width=width)], [rows(1, width=width)]])
    staging = staging_of(target)
    real, joined = staging._join, []

    def join(self, *given):
        if not joined:
            joined.append(self)
            other = new_query(target)
            other.run(1, [[rows(2)]])
            other.finish()
        return real(self, *given)

    monkeypatch.setattr(staging, "_join", join)
    with pytest.raises(GaveWayError):
        query.protocol().roll(finish=True)
    assert joined and target.visible() == [0, 1, 2] and target.hidden() == []


REFUSED = ClientError({"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "Any")


@pytest.mark.parametrize("error", [REFUSED, EndpointConnectionError(endpoint_url="http://s3")])
@pytest.mark.parametrize("call", ["ListObjectsV2", "GetObject", "ListMultipartUploads", "DeleteObjects"])
def test_a_store_that_refuses_what_is_done_behind_a_batch_does_not_fail_it(
    bucket, new_query, monkeypatch, caplog, call, error
):
    query = new_query(bucket, rollOnCheckpoint="true")
    plan = query.plan(0)
    attempts(query, plan, 0, rows(100))  # nobody hears of it
    refused, real, clear = [], BaseClient._make_api_call, MultipartCommitter.clear

    def refuse(self, name, arguments):
        if name == call:
            refused.append(name)
            raise error
        return real(self, name, arguments)

    def clear_with_trouble(self, kept):
        with monkeypatch.context() as trouble:
            trouble.setattr(BaseClient, "_make_api_call", refuse)
            return clear(self, kept)

    with monkeypatch.context() as clearing:
        clearing.setattr(MultipartCommitter, "clear", clear_with_trouble)
        query.commit(0, attempts(query, plan, 0, rows(0)))
    assert refused and "could not clean up after batch 0" in caplog.text
    assert bucket.visible() == [0] and bucket.hidden()
    query.restart()
    query.finish()
    assert bucket.visible() == [0] and bucket.hidden() == []


# --- batch writes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def new_write(monkeypatch):
    """A batch write to ``target``. Nothing of it runs any more when it fails, and nobody waits for that."""
    monkeypatch.setattr("penstock._commit._two_phase._STRAGGLERS_S", 0.0)

    def make(target, **options):
        texts = {"format": "json", "bucketAssigner": "basePath", **target.options, **options}
        values = SINK_OPTIONS.parse(texts, owner="sink")
        return BatchWriter(create_sink(SinkOptions.from_values(values), SCHEMA), SCHEMA, "filesystem", values, None)

    return make


def elsewhere(write):
    """The same write in another process, which runs a task of it, or ends it."""
    return pickle.loads(pickle.dumps(write))


def killed_in_the_middle(write, batch):
    """A task that has written and is killed: it neither ends nor cleans up."""
    task = elsewhere(write)
    context = WriterContext(task._query_id, SCHEMA, batch_id=0, writer_index=1, attempt_id=uuid.uuid4().hex)
    task._sink.create_writer(task._plan.complete(context)).write(batch)


def test_a_batch_write_that_fails_leaves_nothing_of_tasks_that_were_killed(target, new_write):
    write = new_write(target, maxPartSize="100")
    ended = elsewhere(write).write(iter([rows(1, 2, 3)]))
    killed_in_the_middle(write, rows(*range(100)))
    assert target.hidden()
    elsewhere(write).abort([ended, None])
    assert target.visible() == [] and target.hidden() == []


def test_a_batch_write_of_which_a_part_can_not_be_made_publishes_nothing(target, new_write, monkeypatch):
    """Some parts are full, and the disk is full when the rest is put together."""
    write = new_write(target, maxPartSize="1kb")
    messages = [elsewhere(write).write(iter([rows(*ids)])) for ids in (range(100), [1000], [1001])]
    outputs = [output for message in messages for output in message.result.outputs]
    assert any(output.committables for output in outputs) and any(output.states for output in outputs)

    def fail(self, *given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(staging_of(target), "_join", fail)
    with pytest.raises(OSError, match="No space left"):
        elsewhere(write).commit(messages)
    assert target.visible() == []
    elsewhere(write).abort(messages)
    assert target.visible() == [] and target.hidden() == []
