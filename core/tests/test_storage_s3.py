"""The decision log's atomic writes on a real S3 server."""

from __future__ import annotations

import pickle
import threading

import pytest

from penstock.sink.decision_log import Decision, DecisionLog
from penstock.storage import S3Storage, open_storage

SETTINGS = {"key": "test", "secret": "hunter2", "region": "us-east-1"}


@pytest.fixture
def storage(s3_server):
    storage, _ = open_storage("s3a://log", {**SETTINGS, "endpoint": s3_server.endpoint})
    assert isinstance(storage, S3Storage)
    storage.client.create_bucket(Bucket="log")
    yield storage
    names = storage.client.list_objects_v2(Bucket="log").get("Contents", [])
    storage.delete(f"log/{entry['Key']}" for entry in names)
    storage.client.delete_bucket(Bucket="log")


def test_put_if_absent_writes_once(storage):
    assert storage.put_if_absent("log/a/b", b"1")
    assert not storage.put_if_absent("log/a/b", b"2")
    assert storage.put_if_absent("log/a/b", b"1"), "a retried request that meets itself has succeeded"
    assert (storage.read("log/a/b"), storage.list_names("log/a"), storage.size("log/a/b")) == (b"1", ["b"], 1)
    storage.put("log/a/b", b"22")
    storage.delete(["log/a/b", "log/a/none"])
    assert storage.size("log/a/b") is None and storage.list_names("log/a") == []
    with pytest.raises(FileNotFoundError):
        storage.read("log/a/b")


def test_copies_work_in_other_processes(storage):
    copied = pickle.loads(pickle.dumps(storage))
    copied.put("log/x", b"1")
    assert storage.read("log/x") == b"1"


def test_of_many_drivers_one_decides(storage):
    won = []
    gate = threading.Barrier(6)

    def decide(driver):
        log = DecisionLog(pickle.loads(pickle.dumps(storage)), "log/ck")
        gate.wait()
        if log.append(Decision(number=0, kind="batch", last_batch=0, driver=str(driver))):
            won.append(str(driver))

    threads = [threading.Thread(target=decide, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = DecisionLog(storage, "log/ck")
    assert [log.head().driver] == won and not log.head().done
    log.mark_done(log.head())
    assert log.head().done
