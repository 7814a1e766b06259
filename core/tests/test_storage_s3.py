"""The decision log's atomic writes on a real S3 server."""

from __future__ import annotations

import pickle
import threading
from types import SimpleNamespace

import pytest

from penstock._commit import Chain, Link, LinkKind, RunMemory
from penstock.errors import RetriableError
from penstock.storage import S3Storage, open_storage
from suite.busy_s3 import busy_s3

SETTINGS = {"s3.key": "test", "s3.secret": "hunter2", "s3.region": "us-east-1"}


@pytest.fixture
def storage(s3_server):
    storage, _ = open_storage("s3a://log", {**SETTINGS, "s3.endpoint": s3_server.endpoint})
    assert isinstance(storage, S3Storage)
    storage.client.create_bucket(Bucket="log")
    yield storage
    names = storage.client.list_objects_v2(Bucket="log").get("Contents", [])
    storage.delete(f"log/{entry['Key']}" for entry in names)
    storage.client.delete_bucket(Bucket="log")


def test_create_writes_once(storage):
    assert storage.create("log/a/b", b"1")
    assert not storage.create("log/a/b", b"2")
    assert (storage.read("log/a/b"), storage.list_names("log/a"), storage.size("log/a/b")) == (b"1", ["b"], 1)
    storage.put("log/a/b", b"22")
    storage.delete(["log/a/b", "log/a/none"])
    assert storage.size("log/a/b") is None and storage.list_names("log/a") == []
    with pytest.raises(FileNotFoundError):
        storage.read("log/a/b")


def test_what_is_empty(storage):
    assert storage.is_empty("log/below") and storage.is_empty("no-such-bucket/below")
    storage.put("log/below/deep/file", b"1")
    assert not storage.is_empty("log/below") and storage.is_empty("log/bel")


def test_copies_work_in_other_processes(storage):
    copied = pickle.loads(pickle.dumps(storage))
    copied.put("log/x", b"1")
    assert storage.read("log/x") == b"1"


def test_of_many_drivers_one_decides(storage):
    won = []
    gate = threading.Barrier(6)

    def decide(driver):
        chain = Chain(pickle.loads(pickle.dumps(storage)), "log/ck/decisions")
        gate.wait()
        if chain.create(Link(number=0, kind=LinkKind.CLAIM, base=0, id=str(driver), run=str(driver))):
            won.append(str(driver))

    threads = [threading.Thread(target=decide, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain = Chain(storage, "log/ck/decisions")
    assert [chain.head().link.run] == won


def test_a_create_that_meets_its_own_success_counts(storage, monkeypatch):
    """As a request that was repeated because its answer was lost."""
    chain, real = Chain(storage, "log/own/decisions"), S3Storage.create
    monkeypatch.setattr(S3Storage, "create", lambda self, path, data: real(self, path, data) and real(self, path, data))
    assert chain.create(Link(number=0, kind=LinkKind.CLAIM, base=0, id="a"))
    assert not Chain(storage, chain.directory).create(Link(number=0, kind=LinkKind.CLAIM, base=0, id="b"))


def test_errors_are_ours(storage, monkeypatch):
    """Whatever library is behind it: OSError or RetriableError, with the address."""
    bucket_gone, _ = open_storage("s3a://nowhere", {**SETTINGS, "s3.endpoint": storage._endpoint})
    with pytest.raises(FileNotFoundError, match="s3://nowhere/x"):
        bucket_gone.put("nowhere/x", b"1")
    unreachable, _ = open_storage("s3a://log", {**SETTINGS, "s3.endpoint": "http://127.0.0.1:1"})
    monkeypatch.setattr(unreachable.client.meta.config, "retries", {"max_attempts": 0})
    for call in (
        lambda: unreachable.create("log/x", b"1"),
        lambda: unreachable.read("log/x"),
        lambda: unreachable.list_names("log"),
        lambda: unreachable.delete(["log/x"]),
        lambda: unreachable.size("log/x"),
    ):
        with pytest.raises(RetriableError, match="s3://log"):
            call()


def test_many_are_deleted_at_once(storage, monkeypatch):
    calls = []
    real = storage.client.delete_objects
    monkeypatch.setattr(storage.client, "delete_objects", lambda **given: calls.append(1) or real(**given))
    for number in range(12):
        storage.put(f"log/d/{number}", b"")
    storage.delete([f"log/d/{number}" for number in range(20)])
    assert storage.list_names("log/d") == [] and len(calls) == 1


@pytest.fixture
def busy_query(new_query, monkeypatch):
    """A query whose decision log is on a store that refuses requests, and the store. Nobody waits between tries."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    with busy_s3() as server:
        storage, _ = open_storage("s3a://log", {**SETTINGS, "s3.endpoint": server.endpoint})
        storage.client.create_bucket(Bucket="log")
        query = new_query()
        query.storage, query.chain = storage, Chain(storage, "log/ck/decisions")
        yield query, server
        # The server is in this process, and its buckets with it.
        storage.delete(storage.list_tree("log"))
        storage.client.delete_bucket(Bucket="log")


@pytest.mark.budget(10)  # both libraries wait longer from try to try
@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT"])
def test_a_request_is_repeated_by_either_library(method):
    """One reads files and the other writes them; a busy store refuses three times in a row."""
    with busy_s3() as server:
        storage, _ = open_storage("s3a://busy", {**SETTINGS, "s3.endpoint": server.endpoint})
        storage.client.create_bucket(Bucket="busy")
        content = b"1" * 1000  # pyarrow fails at once if the answer "busy" is longer than what it reads
        storage.put("busy/a", content)
        calls = [lambda: storage.fs.open_input_file("busy/a").read(), lambda: storage.read("busy/a")]
        calls = [lambda: storage.put("busy/a", content)] if method == "PUT" else calls
        for call in calls:
            server.refuse(f"{method} /busy/a", times=3)
            assert call() in (content, None)
            server.accept()


@pytest.mark.parametrize("late", [False, True])
def test_deciding_rides_out_a_short_outage(busy_query, late):
    """Also if what is refused was done: a link that was created by an earlier try is one's own."""
    query, server = busy_query
    for batch_id in range(3):
        server.refuse(r"PUT .*/decisions/.*json", r"PUT .*/decisions/.*done", "GET /log.*list-type", times=4, late=late)
        query.run(batch_id, [[2 * batch_id], [2 * batch_id + 1]])
        assert set(server.refused.values()) == {4}
    query.protocol.take_over()
    assert query.visible() == list(range(6)) and query.hidden() == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("request_", ["PUT .*0.json", "PUT .*1.json", "PUT .*1.done", "(GET|HEAD) .*decisions"])
def test_a_long_outage_stops_deciding_and_the_batch_runs_again(busy_query, request_, late):
    query, server = busy_query
    server.refuse(request_, late=late)
    with pytest.raises(RetriableError, match=r"s3://log/ck/decisions.*SlowDown"):
        query.run(0, [[1], [2]])
    server.accept()
    query.memory = RunMemory()
    for batch_id in range(2):
        query.run(batch_id, [[2 * batch_id + 1], [2 * batch_id + 2]])
    query.protocol.take_over()
    assert query.visible() == [1, 2, 3, 4] and query.hidden() == []
