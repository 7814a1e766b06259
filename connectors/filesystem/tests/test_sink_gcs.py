"""The sink against a real server of Google's interface (fake-gcs-server): parts are hidden objects that are moved."""

from __future__ import annotations

import io
import threading
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import BadConfigurationError, RetriableError
from penstock.sink import Found, Kept, SinkContext
from penstock.storage import GcsStorage

COMMITTED, ALREADY = "published", "already"
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


class Output:
    """What there is in the bucket of a test."""

    def __init__(self, server):
        self.storage = server.storage()
        self.bucket = server.new_bucket()
        self.url = f"{server.url(self.bucket)}/out"

    def names(self, *, hidden=False):
        return [path for path in self.storage.list_tree(self.bucket) if ("/.penstock/" in path) == hidden]

    def ids(self):
        found = []
        for name in self.names():
            body = self.storage.read(name)
            if name.endswith(".parquet"):
                found += pq.read_table(io.BytesIO(body))["id"].to_pylist()
            else:
                found += [int(line.split(b",")[0]) for line in body.splitlines() if not line.startswith(b"id,")]
        return sorted(found)

    def take(self):
        """What a reader does that removes what it has read."""
        self.storage.delete(self.names())


@pytest.fixture
def out(gcs_server):
    return Output(gcs_server)


@pytest.fixture
def new_query(out, gcs_server, sink_query):
    settings = {"bucketAssigner": "basePath", "tasks": 1, **gcs_server.options()}

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
    assert out.names(hidden=True) == []


def test_nothing_is_visible_before_the_commit_and_a_second_one_changes_nothing(new_query, numbers, out):
    query = new_query(rollOnCheckpoint=True)
    stored = query.decide([query.write([numbers(range(10))])])
    assert out.names() == []
    assert query.commit(stored) == [COMMITTED]
    assert query.commit(stored) == [ALREADY]
    assert out.ids() == list(range(10))
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
        assert out.names() == []


def test_what_is_discarded_is_never_published(decided, out):
    query, part = decided
    committer = query.committer()
    for _ in range(2):
        committer.discard([part], [])
        assert committer.look([part]) == [Found.LOST] == committer.publish([part])
    assert out.names() == [] == out.names(hidden=True)


REQUESTS = ("_look_up", "_move", "_delete")


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
                crash.setattr(GcsStorage, name, dying(getattr(GcsStorage, name), left, when))
            with suppress(Killed):
                query.committer().seal([part])
        found = query.committer().look([part])
        assert found in ([Found.OPEN], [Found.LOST])
        query.committer().seal([part])
        assert query.committer().look([part]) == [Found.LOST] == query.committer().publish([part])
        assert out.names() == []
        if left[0] >= 0:
            break
    assert step == 1, "a seal is one move"


def dying(method, left, when):
    def call(self, *given, **more):
        left[0] -= 1
        if left[0] == -1 and when == "before":
            raise Killed
        answer = method(self, *given, **more)
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
    """Of a move that worked, also where a reader has taken the file away since."""
    query, part = decided
    real = GcsStorage._move

    def move_and_fail(self, *given, **more):
        real(self, *given, **more)
        out.take()
        raise FileNotFoundError("what a second try would be told")

    with monkeypatch.context() as network:
        network.setattr(GcsStorage, "_move", move_and_fail)
        assert query.committer().publish([part]) == [Found.COMMITTED]
    assert query.committer().look([part]) == [Found.COMMITTED] and out.names() == []


def test_a_store_that_refuses_is_not_taken_for_lost(decided, out, monkeypatch):
    query, part = decided

    def fail(self, *given, **more):
        raise RetriableError("503")

    with monkeypatch.context() as network:
        network.setattr(GcsStorage, "_move", fail)
        with pytest.raises(RetriableError, match="503"):
            query.committer().publish([part])
    assert query.committer().publish([part]) == [Found.COMMITTED]


def test_an_upload_that_comes_late_is_not_published(decided, out):
    """A request that was given up reaches the store after all, when a reader has taken the file away."""
    query, part = decided
    committer = query.committer()
    late = io.BytesIO(out.storage.read(f"{out.bucket}/out/{part.hidden}"))
    committer.publish([part])
    out.take()
    out.storage.stage_file(f"{out.bucket}/out/{part.hidden}", late)
    assert committer.look([part]) == [Found.COMMITTED] == committer.publish([part])
    committer.seal([part])
    assert committer.look([part]) == [Found.COMMITTED] and out.names() == []
    query.clean_up()
    assert out.names(hidden=True) == []


def test_something_else_with_the_name_of_a_part(decided, out):
    query, part = decided
    path = f"{out.bucket}/out/{part.final}"
    out.storage.put(path, b"not it")
    with pytest.raises(FileExistsError, match="condition"):
        query.committer().publish([part])
    assert out.storage.read(path) == b"not it" and query.committer().look([part]) == [Found.OPEN]


def test_clean_up_removes_what_earlier_attempts_left_and_nothing_of_others(new_query, numbers, out):
    mine, other = new_query(rollOnCheckpoint=True), new_query(rollOnCheckpoint=True, query_id="q11")
    kept = other.decide([other.write([numbers(range(3))])])
    mine.write([numbers(range(5))])
    mine.batch = 1
    running = mine.write([numbers(range(7))])
    assert mine.clean_up() == 2
    assert mine.commit(mine.decide([running])) == [COMMITTED]
    assert other.commit(kept) == [COMMITTED]
    assert mine.clean_up() == other.clean_up() == 1, "what tells of a published one"
    assert out.names(hidden=True) == []
    assert mine.committer().clear(Kept(base=9, generation=0)) == 0


def test_failed_attempt_leaves_nothing_that_can_be_seen(new_query, numbers, out):
    query = new_query(format="csv", maxPartSize=2000, partitionColumns="id", bucketAssigner="columns")
    writer = query.task_sink().create_writer(query.context())
    writer.write(numbers([1, 2], 3000))
    assert len(out.names(hidden=True)) == 4
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
    body = out.storage.read(out.names()[0])
    assert body.startswith(b"id,note\n") and body.count(b"id,note\n") == 1


def test_parts_that_take_several_requests(new_query, numbers, out):
    query = new_query(format="csv", maxPartSize="14mb")
    prepared = query.write([numbers(range(250), 60_000)])
    assert query.commit(query.decide([prepared])) == [COMMITTED]
    assert out.ids() == list(range(250))


def test_a_store_without_moves_is_refused_at_the_start(out, gcs_server, sink_query, monkeypatch):
    """The server without the proxy. Otherwise it is tried once in a process, and nothing of that is left."""
    query = sink_query(out.url, SCHEMA, **{"gcs.endpoint": gcs_server.plain})
    context = SinkContext("q1", SCHEMA, query.metrics)
    with pytest.raises(BadConfigurationError, match="does not move files in one step"):
        query.sink.start(context)
    assert out.names(hidden=True) == []
    sink_query(out.url, SCHEMA, **gcs_server.options()).sink.start(context)
    assert out.names(hidden=True) == []
    monkeypatch.setattr(GcsStorage, "check_moves", None)
    sink_query(out.url, SCHEMA, **gcs_server.options()).sink.start(context)


def test_what_a_part_costs(new_query, numbers, out, monkeypatch):
    """Four requests: the object, its witness, a look, the move. One more removes the witness some day."""
    from google.auth.transport.requests import AuthorizedSession

    real, asked = AuthorizedSession.request, []

    def request(self, method, url, *given, **more):
        asked.append(f"{method} {'move' if '/moveTo/' in url else url.partition('/v1/')[2][:1]}")
        return real(self, method, url, *given, **more)

    query = new_query(rollOnCheckpoint=True)
    monkeypatch.setattr(AuthorizedSession, "request", request)
    assert query.commit(query.decide([query.write([numbers(range(10))])])) == [COMMITTED]
    assert asked == ["POST b", "POST b", "GET b", "POST move"]
    asked.clear()
    query.clean_up()
    assert asked == ["GET b", "DELETE b"]
