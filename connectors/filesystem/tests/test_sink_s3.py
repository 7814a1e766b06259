"""The sink against a real S3 server: nothing is visible before an upload is completed, and none is left behind."""

from __future__ import annotations

import functools
import io
import pickle
import uuid
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError

from penstock.errors import BadConfigurationError, DataLostError, RetriableError
from penstock.retry import RetryPolicy
from penstock.sink import Kept
from penstock.spark._write import BatchWriter
from penstock.storage import open_storage
from penstock.testing import Crash
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions
from penstock_filesystem.sink import create_sink
from suite.busy_s3 import busy_s3

COMMITTED, ALREADY, LOST = "published", "already", "lost"
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


@pytest.fixture
def query_on_s3(s3_path, s3_server, sink_query):
    url, _, _ = s3_path
    settings = {"bucketAssigner": "basePath", "tasks": 1, **s3_server.options()}

    def build(**options):
        return sink_query(url, SCHEMA, **{**settings, **options})

    return build


@pytest.fixture
def keys(s3_path):
    """Keys of all objects that readers see."""
    _, bucket, client = s3_path

    def listed(hidden=False):
        found = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
        return sorted(key for key in found if ("/.penstock/" in key) == hidden)

    return listed


@pytest.fixture
def uploads(s3_path):
    _, bucket, client = s3_path
    return lambda: [one["Key"] for one in client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


@pytest.fixture
def ids(s3_path, keys):
    """The ids in all finished Parquet or CSV files."""
    _, bucket, client = s3_path

    def read():
        found = []
        for key in keys():
            body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
            if key.endswith(".parquet"):
                found += pq.read_table(io.BytesIO(body))["id"].to_pylist()
            else:
                found += [int(line.split(b",")[0]) for line in body.splitlines() if not line.startswith(b"id,")]
        return sorted(found)

    return read


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_slow_stream(query_on_s3, numbers, keys, ids, uploads, file_format):
    query = query_on_s3(format=file_format, header=True, maxPartSize=6000, maxOpenChunks=4)
    for number in range(12):
        assert set(query.run([numbers(range(number * 20, number * 20 + 20), 40)])) <= {COMMITTED}
        assert len(ids()) % 20 == 0
    query.finish()
    assert ids() == list(range(240))
    assert len(keys()) <= 5
    query.clean_up()
    assert keys(hidden=True) == [] and uploads() == []


def test_nothing_is_visible_before_the_commit_and_a_second_one_changes_nothing(
    query_on_s3, numbers, keys, ids, uploads
):
    query = query_on_s3(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(10))])])
    assert keys() == [] and len(uploads()) == 1
    assert query.commit(stored) == [COMMITTED]
    assert query.commit(stored) == [ALREADY]
    assert ids() == list(range(10)) and uploads() == []
    query.clean_up()
    assert ids() == list(range(10)) and keys(hidden=True) == []


def test_completed_by_a_driver_that_died_before_it_heard(query_on_s3, numbers, s3_path, ids):
    _, bucket, client = s3_path
    query = query_on_s3(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(10))])])
    part = query.sink.committable_serializer.unpack(stored[0])
    client.complete_multipart_upload(
        Bucket=bucket,
        Key=f"out/{part.final}",
        UploadId=part.upload_id,
        MultipartUpload={"Parts": [{"PartNumber": one.number, "ETag": one.etag} for one in part.parts]},
    )
    assert query.commit(stored) == [ALREADY]
    assert ids() == list(range(10))


def test_an_upload_that_is_gone_without_a_trace(query_on_s3, numbers, s3_path, monkeypatch):
    """A reader has taken away what it became; after a day a lifecycle rule may have aborted it as well."""
    _, bucket, client = s3_path
    query = query_on_s3(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(10))]), query.write([numbers(range(10, 20))])])
    part = query.sink.committable_serializer.unpack(stored[0])
    # This server answers 500 for an unknown upload, which is worth a retry anywhere else: a client that makes none.
    monkeypatch.setattr("penstock.storage._s3._ATTEMPTS", 1)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # with another environment comes a client of its own
    client.abort_multipart_upload(Bucket=bucket, Key=f"out/{part.final}", UploadId=part.upload_id)
    assert query.commit(stored) == [ALREADY, COMMITTED]
    monkeypatch.setattr("penstock_filesystem.sink.staging._multipart._MARKER_PROVES_FOR_S", -1)
    with pytest.raises(DataLostError, match="penstock resolve"):
        query.commit(stored)
    query.committer().seal([part])
    assert query.commit(stored) == [LOST, ALREADY]
    client.put_object(Bucket=bucket, Key=f"out/{part.final}", Body=b"not it")
    assert query.commit(stored) == [LOST, ALREADY]


def test_orphans_are_aborted_and_those_of_others_are_not(query_on_s3, numbers, keys, uploads):
    mine, other = query_on_s3(rollOnCheckpoint=True), query_on_s3(rollOnCheckpoint=True, query_id="q11")
    kept = other.decide([other.write([numbers(range(3))])])
    mine.write([numbers(range(5))])
    mine.batch = 1
    running = mine.write([numbers(range(7))])
    assert len(uploads()) == 3
    assert mine.clean_up() == 1
    assert len(uploads()) == 2
    assert mine.commit(mine.decide([running])) == [COMMITTED]
    assert other.commit(kept) == [COMMITTED]
    assert mine.clean_up() == other.clean_up() == 1, "what tells of a published one"
    assert uploads() == [] and keys(hidden=True) == []


def test_clean_up_aborts_before_it_forgets_and_only_uploads_to_that_very_key(
    query_on_s3, numbers, s3_path, uploads, monkeypatch
):
    _, bucket, client = s3_path
    query = query_on_s3(rollOnCheckpoint=True)
    (part,) = query.write([numbers(range(5))]).committables
    client.create_multipart_upload(Bucket=bucket, Key=f"out/{part.final}.copy")
    query.batch = 1
    committer = query.committer()
    with monkeypatch.context() as crash:
        crash.setattr(committer, "_delete", lambda paths: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            committer.clear(Kept(base=1, generation=0))
    assert uploads() == [f"out/{part.final}.copy"]


def test_pending_decision_survives_a_restart_of_everything(query_on_s3, numbers, ids):
    query = query_on_s3(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(5))])])
    again = query_on_s3(rollOnCheckpoint=True)
    assert again.commit(stored) == [COMMITTED]
    assert ids() == list(range(5))


def test_undecided_attempts_are_taken_back(query_on_s3, numbers, keys, uploads):
    query = query_on_s3(maxPartSize=2000)
    query.run([numbers(range(20), 40)], [])
    full = query.write([numbers(range(100), 40), numbers(range(100), 40)])
    assert full.committables or full.states
    rolled = query.roll(finish=True)
    for _ in range(2):
        query.committer().discard(full.committables, full.states)
        query.committer().discard([part for _, one in rolled for part in one.committables], [])
    assert uploads() == []
    assert keys(hidden=True) == [f"out/{chunk.path}" for chunk in query.live()]


def test_failed_attempt_leaves_nothing(query_on_s3, numbers, keys, uploads):
    query = query_on_s3(format="csv", maxPartSize=2000, partitionColumns="id", bucketAssigner="columns")
    writer = query.task_sink().create_writer(query.context())
    writer.write(numbers([1, 2], 3000))
    assert len(uploads()) == 2
    writer.write(numbers([3], 30))
    writer.abort()
    assert uploads() == [] and keys(hidden=True) == []


def test_a_batch_write_that_fails_leaves_nothing_of_a_task_that_was_killed(s3_path, s3_server, keys, uploads):
    """The task has begun an upload and sent its first part. Nobody has heard of either."""
    given = {"path": s3_path[0], "format": "csv", "maxPartSize": "100", "bucketAssigner": "basePath"}
    values = SINK_OPTIONS.parse({**given, **s3_server.options()}, owner="sink")
    writer = BatchWriter(create_sink(SinkOptions.from_values(values), SCHEMA), SCHEMA, "filesystem", values, None)

    seen = []

    def killed():
        yield pa.record_batch([pa.array(range(100)), pa.array(["x"] * 100)], schema=SCHEMA)
        seen.append((len(uploads()), bool(keys(hidden=True))))
        # The driver's abort, at a moment at which the task's process is gone.
        pickle.loads(pickle.dumps(writer)).abort([None])
        seen.append((uploads(), keys(), keys(hidden=True)))
        raise Crash

    with pytest.raises(Crash):
        pickle.loads(pickle.dumps(writer)).write(killed())
    assert seen == [(1, True), ([], [], [])]


def test_zombie_whose_marker_was_cleaned_up_opens_no_upload(query_on_s3, numbers, s3_path, uploads, monkeypatch):
    from penstock.errors import RetriableError

    _, bucket, client = s3_path
    query = query_on_s3(format="csv", rollOnCheckpoint=True)
    writer = query.task_sink().create_writer(query.context())
    writer.write(numbers([1]))
    storage = writer._staging.layout.storage
    create = storage.create_by_one_request

    def create_then_lose(path, data):
        is_answered = create(path, data)
        client.delete_object(Bucket=bucket, Key=path.partition("/")[2])
        return is_answered

    monkeypatch.setattr(storage, "create_by_one_request", create_then_lose)
    with pytest.raises(RetriableError, match="cleaned up"):
        writer.prepare_commit()
    writer.abort()
    assert uploads() == []


def test_large_chunks_are_copied_inside_the_store(query_on_s3, numbers, keys, ids, s3_path, monkeypatch):
    """Chunks of 5 MiB and more are not downloaded; small ones are gathered; the header stands once."""
    import penstock_filesystem.sink.staging._multipart as staging

    downloaded = []
    read = staging.chunk_bytes
    monkeypatch.setattr(
        staging, "chunk_bytes", lambda lay, chunk, at: downloaded.append(chunk.size) or read(lay, chunk, at)
    )
    query = query_on_s3(format="csv", header=True)
    width, start = 60_000, 0
    for rows in (1, 100, 2, 95, 1):
        query.run([numbers(range(start, start + rows), width)])
        start += rows
    assert sorted(chunk.size > 5 << 20 for chunk in query.live()) == [False] * 3 + [True] * 2
    assert query.finish() == [COMMITTED]
    assert len(downloaded) == 3
    assert len(keys()) == 1 and ids() == list(range(start))
    _, bucket, client = s3_path
    body = client.get_object(Bucket=bucket, Key=keys()[0])["Body"].read()
    assert body.startswith(b"id,note\n") and body.count(b"id,note\n") == 1


def test_parts_larger_than_an_upload_part(query_on_s3, numbers, ids, keys):
    query = query_on_s3(format="csv", maxPartSize="14mb")
    (part,) = query.write([numbers(range(250), 60_000)]).committables
    assert len(part.parts) == 2 and part.parts[0].size == 8 << 20
    assert query.commit(query.decide([query.write([numbers(range(250), 60_000)])])) == [COMMITTED]
    assert ids() == list(range(250))


def test_secrets_do_not_show(query_on_s3):
    query = query_on_s3()
    assert "testing" not in repr(query.sink) + repr(query.sink._layout)


def test_part_size_limit(query_on_s3):
    with pytest.raises(BadConfigurationError, match="4gb"):
        query_on_s3(maxPartSize="5gb")


def test_store_that_refuses_is_not_taken_for_lost(query_on_s3, numbers, monkeypatch):
    query = query_on_s3(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(5))])])

    def refuse(**_):
        answer = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
        raise ClientError(answer, "CompleteMultipartUpload")

    monkeypatch.setattr(query.sink._layout.storage.client, "complete_multipart_upload", refuse)
    with pytest.raises(RetriableError, match="SlowDown"):
        query.commit(stored)
    monkeypatch.undo()
    assert query.commit(stored) == [COMMITTED]


@pytest.fixture
def busy_bucket(monkeypatch):
    """A store that refuses requests on demand, as (server, bucket, client). Nobody waits between boto's tries."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    with busy_s3() as server:
        storage, _ = open_storage("s3://x", {"s3.endpoint": server.endpoint, "s3.key": "test", "s3.secret": "test"})
        bucket = f"b{uuid.uuid4().hex[:12]}"
        storage.client.create_bucket(Bucket=bucket)
        yield server, bucket, storage.client


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "request_",
    [r"PUT .*\.chunk\?", r"PUT .*\.upload\?", r"POST .*\?uploads", "PUT .*partNumber=", r"POST .*\?uploadId="],
)
def test_staging_waits_for_a_store_that_is_away(sink_query, numbers, busy_bucket, request_, late):
    """Its library makes a request six times; the writer makes it again, as the query's retryTimeout says.

    late: each request was done, and only its answer is lost. An upload that is begun twice is aborted by the clean-up.
    """
    server, bucket, client = busy_bucket
    settings = {"bucketAssigner": "basePath", "tasks": 1, "format": "csv", "maxOpenChunks": 2, "maxPartSize": 5000}
    credentials = {"s3.endpoint": server.endpoint, "s3.key": "test", "s3.secret": "test"}
    query = sink_query(f"s3://{bucket}/out", SCHEMA, **settings, **credentials)
    query.context = functools.partial(query.context, retry=RetryPolicy(60))
    refused, start = [], 0
    for rows in (30, 30, 30, 30, 150, 30):
        server.refuse(request_, times=8, late=late)
        rolled = query.roll(task=0)
        prepared = query.write([numbers(range(start, start + rows), 20)])
        refused.append(server.refused[request_])
        server.accept()
        query.commit(query.decide([prepared], rolled))
        start += rows
    assert set(refused) - {0} == {8}
    query.finish()
    query.clean_up()
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    names = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert not [name for name in names if "/.penstock/" in name]
    lines = b"".join(client.get_object(Bucket=bucket, Key=name)["Body"].read() for name in names).split()
    assert sorted(int(line.split(b",")[0]) for line in lines) == list(range(start))
