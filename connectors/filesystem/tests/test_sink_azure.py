"""The sink against a real server of Azure's interface (Azurite): parts are blocks until they are committed."""

from __future__ import annotations

import io
import threading
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import DataLostError, RetriableError
from penstock.sink import Found, Kept
from penstock.storage import AzureStorage

COMMITTED, ALREADY, LOST = "published", "already", "lost"
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


class Output:
    """What there is in the container of a test."""

    def __init__(self, server):
        self.container = server.new_container()
        self.url = f"{server.url(self.container)}/out"
        self.client = server.client.get_container_client(self.container)

    def names(self, *, hidden=False):
        return sorted(name for name in self.client.list_blob_names() if ("/.penstock/" in name) == hidden)

    def uncommitted(self):
        """Names that have nothing but blocks."""
        every = {one.name for one in self.client.list_blobs(include=["uncommittedblobs"])}
        return sorted(every - set(self.client.list_blob_names()))

    def ids(self):
        found = []
        for name in self.names():
            body = self.client.download_blob(name).readall()
            if name.endswith(".parquet"):
                found += pq.read_table(io.BytesIO(body))["id"].to_pylist()
            else:
                found += [int(line.split(b",")[0]) for line in body.splitlines() if not line.startswith(b"id,")]
        return sorted(found)

    def take(self):
        """What a reader does that removes what it has read."""
        for name in self.names():
            self.client.delete_blob(name)


@pytest.fixture
def out(azure_server):
    return Output(azure_server)


@pytest.fixture
def new_query(out, azure_server, sink_query):
    settings = {"bucketAssigner": "basePath", "tasks": 1, **azure_server.options()}

    def build(**options):
        return sink_query(out.url, SCHEMA, **{**settings, **options})

    return build


@pytest.fixture
def decided(new_query, numbers):
    """A decided part, and its query."""
    query = new_query(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(10))])])
    return query, query.sink.committable_serializer.unpack(stored[0])


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_slow_stream(new_query, numbers, out, file_format):
    query = new_query(format=file_format, header=True, maxPartSize=6000, maxOpenChunks=4)
    for number in range(12):
        assert set(query.run([numbers(range(number * 20, number * 20 + 20), 40)])) <= {COMMITTED}
        assert len(out.ids()) % 20 == 0
    query.finish()
    assert out.ids() == list(range(240)) and len(out.names()) <= 5
    query.clean_up()
    assert out.names(hidden=True) == [] == out.uncommitted()


def test_nothing_is_visible_before_the_commit_and_a_second_one_changes_nothing(new_query, numbers, out):
    query = new_query(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(10))])])
    assert out.names() == [] and len(out.uncommitted()) == 1
    assert query.commit(stored) == [COMMITTED]
    assert query.commit(stored) == [ALREADY]
    assert out.ids() == list(range(10)) and out.uncommitted() == []
    query.clean_up()
    assert out.ids() == list(range(10)) and out.names(hidden=True) == []


def test_what_a_reader_has_taken_away_was_published(decided, out):
    query, part = decided
    committer = query.committer()
    assert committer.publish([part]) == [Found.COMMITTED]
    out.take()
    assert committer.look([part]) == [Found.COMMITTED] == committer.publish([part])
    committer.seal([part])
    assert committer.look([part]) == [Found.COMMITTED] and out.names() == []


def test_what_is_published_stays_so_when_it_is_sealed(decided, out):
    query, part = decided
    committer = query.committer()
    committer.publish([part])
    committer.seal([part])
    out.take()
    assert committer.look([part]) == [Found.COMMITTED]


def test_what_is_sealed_is_never_published_nor_left_there(decided, out):
    query, part = decided
    committer = query.committer()
    for _ in range(2):
        committer.seal([part])
        assert committer.look([part]) == [Found.LOST] == committer.publish([part])
        assert out.names() == [] == out.uncommitted()


def test_what_is_discarded_is_never_published(decided, out):
    query, part = decided
    committer = query.committer()
    for _ in range(2):
        committer.discard([part], [])
        assert committer.look([part]) == [Found.LOST] == committer.publish([part])
    assert out.names() == [] == out.names(hidden=True)


REQUESTS = ("_look_up", "staged_blocks", "delete", "commit_blocks", "discard_blocks", "_delete")


class Killed(BaseException):
    """As SIGKILL."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_seal_that_is_killed_at_any_request_is_completed_by_the_next(new_query, numbers, out, monkeypatch, when):
    query = new_query(rollOnCheckpoint=True)
    for step in range(100):
        stored = query.decide([query.write([numbers(range(10))])])
        part = query.sink.committable_serializer.unpack(stored[0])
        left = [step]
        with monkeypatch.context() as crash:
            for name in REQUESTS:
                crash.setattr(AzureStorage, name, dying(getattr(AzureStorage, name), left, when))
            with suppress(Killed):
                query.committer().seal([part])
        found = query.committer().look([part])
        assert found in ([Found.OPEN], [Found.LOST])
        query.committer().seal([part])
        assert query.committer().look([part]) == [Found.LOST] == query.committer().publish([part])
        assert out.names() == [] == out.uncommitted()
        if left[0] >= 0:
            break
    assert step > 5


def dying(method, left, when):
    def call(self, *given):
        left[0] -= 1
        if left[0] == -1 and when == "before":
            raise Killed
        answer = method(self, *given)
        if left[0] == -1:
            raise Killed
        return answer

    return call


def test_of_a_seal_and_a_publication_at_once_one_wins(new_query, numbers, out):
    query = new_query(rollOnCheckpoint=True)
    outcomes = set()
    for _ in range(15):
        stored = query.decide([query.write([numbers(range(10))])])
        part = query.sink.committable_serializer.unpack(stored[0])
        sealing = threading.Thread(target=query.committer().seal, args=([part],))
        sealing.start()
        said = query.committer().publish([part])
        sealing.join()
        assert said == query.committer().look([part])
        assert len(out.names()) == (said == [Found.COMMITTED])
        outcomes.update(said)
        out.take()
    assert outcomes <= {Found.COMMITTED, Found.LOST}


def test_an_answer_that_is_lost(decided, out, monkeypatch):
    query, part = decided
    real = AzureStorage.commit_blocks

    def commit_and_fail(self, *given):
        real(self, *given)
        raise RetriableError("the answer was lost")

    with monkeypatch.context() as network:
        network.setattr(AzureStorage, "commit_blocks", commit_and_fail)
        assert query.committer().publish([part]) == [Found.COMMITTED]
    assert out.ids() == list(range(10))


def test_a_store_that_refuses_is_not_taken_for_lost(decided, out, monkeypatch):
    query, part = decided

    def fail(self, *given):
        raise RetriableError("ServerBusy")

    with monkeypatch.context() as network:
        network.setattr(AzureStorage, "commit_blocks", fail)
        with pytest.raises(RetriableError, match="ServerBusy"):
            query.committer().publish([part])
    assert query.committer().publish([part]) == [Found.COMMITTED]


def test_blocks_that_the_store_has_discarded_are_for_a_person_to_judge(decided, out, azure_server, monkeypatch):
    """A reader may have taken the file away as well. What the person says counts."""
    query, part = decided
    azure_server.storage().discard_blocks(f"{out.container}/out/{part.final}")
    assert query.committer().look([part]) == [Found.COMMITTED]
    monkeypatch.setattr("penstock_filesystem.sink.staging._blocks._MARKER_PROVES_FOR_S", -1)
    with pytest.raises(DataLostError, match="penstock resolve"):
        query.committer().look([part])
    query.committer().seal([part])
    assert query.committer().look([part]) == [Found.LOST]


def test_something_else_with_the_name_of_a_part(decided, out):
    query, part = decided
    out.client.upload_blob(f"out/{part.final}", b"not it", overwrite=True)
    assert query.committer().look([part]) == [Found.LOST]


def test_clean_up_removes_what_earlier_attempts_left_and_nothing_of_others(new_query, numbers, out):
    mine, other = new_query(rollOnCheckpoint=True), new_query(rollOnCheckpoint=True, query_id="q11")
    kept = other.decide([other.write([numbers(range(3))])])
    mine.write([numbers(range(5))])
    mine.batch = 1
    running = mine.write([numbers(range(7))])
    assert mine.clean_up() == 1
    assert mine.commit(mine.decide([running])) == [COMMITTED]
    assert other.commit(kept) == [COMMITTED]
    assert mine.clean_up() == other.clean_up() == 1, "what tells of a published one"
    assert out.names(hidden=True) == []
    assert mine.committer().clear(Kept(base=9, generation=0)) == 0


def test_failed_attempt_leaves_nothing_that_can_be_seen(new_query, numbers, out):
    query = new_query(format="csv", maxPartSize=2000, partitionColumns="id", bucketAssigner="columns")
    writer = query.task_sink().create_writer(query.context())
    writer.write(numbers([1, 2], 3000))
    assert len(out.uncommitted()) == 2
    writer.write(numbers([3], 30))
    writer.abort()
    assert out.names() == [] == out.names(hidden=True)


def test_chunks_are_joined_under_one_header(new_query, numbers, out):
    query = new_query(format="csv", header=True)
    start = 0
    for rows in (1, 100, 2, 95, 1):
        query.run([numbers(range(start, start + rows), 60_000)])
        start += rows
    assert query.finish() == [COMMITTED]
    assert len(out.names()) == 1 and out.ids() == list(range(start))
    body = out.client.download_blob(out.names()[0]).readall()
    assert body.startswith(b"id,note\n") and body.count(b"id,note\n") == 1


def test_parts_larger_than_a_block(new_query, numbers, out):
    query = new_query(format="csv", maxPartSize="14mb")
    prepared = query.write([numbers(range(250), 60_000)])
    (part,) = prepared.committables
    assert len(part.parts) == 2 and part.parts[0].size == 8 << 20
    assert query.commit(query.decide([prepared])) == [COMMITTED]
    assert out.ids() == list(range(250))


def test_secrets_do_not_show(new_query, azure_server):
    query = new_query()
    assert azure_server.key not in repr(query.sink) + repr(query.sink._layout)
