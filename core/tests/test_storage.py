from __future__ import annotations

import ctypes
import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest

from penstock.errors import BadConfigurationError
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.storage import (
    AzureStorage,
    GcsStorage,
    HdfsStorage,
    LocalStorage,
    MemoryStorage,
    S3Storage,
    Storage,
    _local,
    open_storage,
    storage_options_of_one,
)
from penstock.storage._contract import _REPEATABLE


@pytest.fixture(params=[LocalStorage, MemoryStorage])
def storage(request):
    return request.param()


def test_create_writes_once(storage, tmp_path):
    path = f"{tmp_path}/a/b"
    assert storage.create(path, b"1")
    assert not storage.create(path, b"2")
    assert storage.read(path) == b"1" and storage.list_names(f"{tmp_path}/a") == ["b"]
    storage.put(path, b"33")
    assert storage.read(path) == b"33" and storage.size(path) == 2
    storage.delete([path, f"{tmp_path}/a/none"])
    assert storage.size(path) is None
    with pytest.raises(FileNotFoundError):
        storage.read(path)


@pytest.fixture
def without_links(monkeypatch):
    """A file system without hard links. Returns the names that are renamed into place instead."""

    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def renamed(source, target):
        tried.append(target)
        return rename(source, target)

    tried, rename = [], _local.rename_without_replacing
    monkeypatch.setattr("penstock.storage._local.os.link", refused)
    monkeypatch.setattr(_local, "rename_without_replacing", renamed)
    return tried


def test_create_writes_once_without_hard_links(without_links, tmp_path):
    storage, path = LocalStorage(), f"{tmp_path}/a/b"
    assert storage.create(path, b"1") and not storage.create(path, b"2")
    assert storage.read(path) == b"1" and os.listdir(tmp_path / "a") == ["b"]
    assert without_links == [path, path]  # a single step each: no look before it that could be outdated


def test_a_second_name_is_a_copy_without_hard_links(without_links, tmp_path):
    storage = LocalStorage()
    storage.put(f"{tmp_path}/a", b"rows")
    storage.add_name(f"{tmp_path}/a", f"{tmp_path}/new/b")
    storage.put(f"{tmp_path}/a", b"others")
    assert storage.read(f"{tmp_path}/new/b") == b"rows"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_with_neither_links_nor_such_a_rename_is_refused(without_links, monkeypatch, tmp_path, number):
    def fails(*_):
        ctypes.set_errno(number)
        return -1

    libc = SimpleNamespace(renameat2=fails, renamex_np=fails)
    monkeypatch.setattr("penstock.storage._local.ctypes.CDLL", lambda *_, **__: libc)
    with pytest.raises(BadConfigurationError, match="neither hard links nor a rename that never replaces") as refused:
        LocalStorage().create(f"{tmp_path}/a/b", b"1")
    assert refused.value.error_code == "PENSTOCK-CORE-064" and os.listdir(tmp_path / "a") == []


@pytest.mark.parametrize("links", [True, False])
def test_of_many_at_once_one_wins(request, tmp_path, links):
    if not links:
        request.getfixturevalue("without_links")
    storage, won = LocalStorage(), []
    gate = threading.Barrier(8)

    def race(i):
        gate.wait()
        if storage.create(f"{tmp_path}/x", b"%d" % i):
            won.append(i)

    threads = [threading.Thread(target=race, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and storage.read(f"{tmp_path}/x") == b"%d" % won[0]
    assert storage.list_names(str(tmp_path)) == ["x"]


def test_full_or_read_only_disk_leaves_nothing(tmp_path, monkeypatch):
    def fails(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match=f"No space.*{tmp_path}/x"):
        LocalStorage().create(f"{tmp_path}/x", b"1")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named_whatever_step_finds_it_full(tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    storage = LocalStorage()
    with open(tmp_path / "full", "wb", buffering=1 << 20) as file:
        file.write(b"1")
        with pytest.raises(OSError, match=f"No space.*{tmp_path}/full"):
            storage.finish(file)
        file.raw.close()


def test_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_storage("ck/")[1] == f"{tmp_path}/ck"
    assert open_storage(f"file://{tmp_path}/ck/")[1] == f"{tmp_path}/ck"
    storage, path = open_storage(
        "s3a://bucket/some/key/", {"s3.endpoint": "http://127.0.0.1:1", "S3.Secret": "hunter2"}
    )
    assert path == "bucket/some/key" and storage.url(path) == "s3://bucket/some/key"
    assert "hunter2" not in repr(storage)
    assert isinstance(pickle.loads(pickle.dumps(storage)), type(storage))
    assert open_storage("s3://bucket/a?b#c/*.csv")[1] == "bucket/a?b#c/*.csv"
    assert open_storage("file:/x/y")[1] == "/x/y"
    assert open_storage("a b/?#")[1] == f"{tmp_path}/a b/?#"


@pytest.mark.parametrize("scheme", ["ftp", "oss"])
def test_a_store_that_has_no_atomic_create_is_refused(scheme):
    """Two drivers could decide the same batch there."""
    with pytest.raises(BadConfigurationError, match=f"no file system for '{scheme}://'"):
        open_storage(f"{scheme}://container@account/checkpoint")


def test_missing_directory_is_empty(storage, tmp_path):
    assert storage.list_names(f"{tmp_path}/none") == []


KILLED = """
import os, signal, sys
from penstock.storage import LocalStorage
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
getattr(LocalStorage(), sys.argv[1])(sys.argv[2], b"1")
"""


@pytest.mark.parametrize("call", ["create", "put"])
def test_what_a_killed_write_leaves_is_shown_to_nobody_and_swept_once_it_is_old(tmp_path, call):
    storage = LocalStorage()
    ended = subprocess.run([sys.executable, "-c", KILLED, call, f"{tmp_path}/x"])
    (left,) = tmp_path.iterdir()
    assert ended.returncode == -signal.SIGKILL
    assert storage.list_names(str(tmp_path)) == [] and storage.list_tree(str(tmp_path)) == []
    assert storage.sweep(str(tmp_path)) == 0, "its process may be alive"
    os.utime(left, (0, 0))
    assert storage.sweep(str(tmp_path)) == 1 and list(tmp_path.iterdir()) == []


UNREPEATABLE = ("add_name", "finish", "open_new", "create_by_one_request")


class _Noting:
    """Every call fails ``failures`` times. Notes what it was given."""

    fs = None

    def __init__(self, failures=1):
        self.left, self.asked = dict.fromkeys((*_REPEATABLE, *UNREPEATABLE), failures), []

    def url(self, path):
        return path

    def ask(self, name, *given):
        self.asked.append([one if isinstance(one, str) else list(one) for one in given])
        if self.left[name]:
            self.left[name] -= 1
            raise ConnectionResetError("away")
        return name


def _asking(name):
    return lambda self, *given: self.ask(name, *given)


Failing = type("Failing", (_Noting, Storage), {name: _asking(name) for name in (*_REPEATABLE, *UNREPEATABLE)})


@pytest.mark.parametrize("name", sorted(_REPEATABLE))
def test_a_call_that_may_be_made_twice_is_made_again(name):
    with pytest.raises(ConnectionResetError):
        getattr(Failing(), name)("p")
    storage = Failing(2).retrying(RetryPolicy(60))
    assert getattr(storage, name)("p", (path for path in "ab")) == name
    assert storage.asked == [["p", ["a", "b"]]] * 3


@pytest.mark.parametrize("name", UNREPEATABLE)
def test_a_call_that_may_not_be_made_twice_is_not(name):
    storage = Failing().retrying(RetryPolicy(60))
    with pytest.raises(ConnectionResetError):
        getattr(storage, name)("p")
    assert storage.asked == [["p"]]


def test_every_method_of_a_storage_is_known_as_one_or_the_other():
    without_store = {
        "url",
        "retrying",
        "check_is_there",
        "exists",
        "split",
        "request",
        "client_of",
        "is_same_place",
        "no_answer",
    }
    for storage in (Storage, LocalStorage, MemoryStorage, S3Storage, HdfsStorage, AzureStorage, GcsStorage):
        methods = {name for name, one in vars(storage).items() if callable(one) and not name.startswith("_")}
        assert methods <= {*_REPEATABLE, *UNREPEATABLE, *without_store}
        assert all(hasattr(vars(storage)[name], "__wrapped__") for name in methods & _REPEATABLE)


def test_what_a_call_does_to_clean_up_is_not_repeated_by_itself():
    """Otherwise a write that fails would wait for its clean-up, and then be made again after all."""
    tries = []

    class Away(LocalStorage):
        def put(self, path, data, *, durable=True):
            tries.append("put")
            if len(tries) > 6:
                raise PermissionError("no")
            try:
                raise ConnectionResetError("away")
            finally:
                self.delete([path])

        def delete(self, paths):
            tries.append("delete")
            if len(tries) < 6:
                raise ConnectionResetError("away, too")

    storage = Away().retrying(RetryPolicy(60))
    with pytest.raises(PermissionError):
        storage.put("x", b"")
    assert tries == [*["put", "delete"] * 3, "put"]
    assert Away().retrying(RetryPolicy(60)).delete([]) is None


@pytest.mark.parametrize(
    "storage",
    [
        *(LocalStorage(), MemoryStorage(), HdfsStorage("hdfs://x/"), S3Storage({"key": "a", "secret": "b"})),
        AzureStorage("account", {"key": "a2V5"}),
        GcsStorage({"credentials": "{}"}),
    ],
)
def test_a_copy_for_another_process_waits_as_long(storage):
    patient = storage.retrying(RetryPolicy(7))
    assert (type(patient), patient.retry, storage.retry) == (type(storage), RetryPolicy(7), NO_RETRIES)
    assert pickle.loads(pickle.dumps(patient)).retry == RetryPolicy(7)
    assert patient.retrying(RetryPolicy(7)) is patient and patient.retrying(NO_RETRIES).retry == NO_RETRIES


def test_what_was_listed_and_read_is_free_when_it_is_dropped():
    """What each task and each batch opens would add up in a process that runs for weeks."""
    make = {
        LocalStorage: LocalStorage,
        S3Storage: lambda: S3Storage({"key": "a", "secret": "b"}),
        AzureStorage: lambda: AzureStorage("account", {"key": "a2V5"}),
        GcsStorage: lambda: GcsStorage({"credentials": "{}"}),
        HdfsStorage: lambda: HdfsStorage("hdfs://x/"),
    }
    ours = {one for one in _all_below(Storage) if one.__module__.startswith("penstock.storage.")}
    assert {one for one in ours if not one.__abstractmethods__} == {MemoryStorage, *make}, "this one has no such system"
    for make_one in make.values():
        storage = make_one()
        assert storage.fs.type_name
        left = weakref.ref(storage)
        del storage
        gc.collect()
        assert left() is None


def _all_below(base):
    return {below for one in base.__subclasses__() for below in (one, *_all_below(one))}


def test_connections_are_shared_by_copies():
    storage = S3Storage({"key": "a", "secret": "b"})
    assert storage.retrying(RetryPolicy(7)).client is storage.client
    assert pickle.loads(pickle.dumps(storage)).client is storage.client, "a task of this process"
    others = [S3Storage({"key": "a", "secret": "other"}), S3Storage({"key": "a", "secret": "b", "region": "eu-west-1"})]
    assert len({id(one.client) for one in (storage, *others)}) == 3


def test_what_s3_needs_is_said_at_once(monkeypatch):
    monkeypatch.setattr("penstock.storage._s3.find_spec", lambda name: None)
    with pytest.raises(BadConfigurationError, match=r"S3 needs boto3: pip install 'penstock\[s3\]'"):
        open_storage("s3://bucket/x")


def test_credentials_that_come_later_are_used(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    storage = S3Storage({"endpoint": "http://127.0.0.1:1"})

    def key():
        found = storage.client._request_signer._credentials
        return found and found.access_key

    assert key() is None
    for number, text in enumerate("ab"):
        path.write_text(f"[default]\naws_access_key_id = {text}\naws_secret_access_key = {text}\n")
        os.utime(path, (number, number))  # not being written any more
        assert key() == text
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "c")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "c")
    assert key() == "c"


def test_a_store_that_sinks_share_is_opened_with_the_options_of_one():
    """A mixture would be the key of one account and the address of another."""
    one = {"s3.endpoint": "http://one", "s3.region": "r", "azure.key": "a", "azure.sas": "b", "azure.endpoint": "c"}
    two = {"S3.Key": "k", "s3.secret": "s", "s3.region": "q", "path": "s3://two"}
    for sinks in ([one, two], [two, one], [two, {}, one]):
        assert storage_options_of_one("s3a://b/ck", sinks) == {"s3.key": "k", "s3.secret": "s", "s3.region": "q"}
        assert set(storage_options_of_one("abfss://c@h/ck", sinks)) == {"azure.key", "azure.sas", "azure.endpoint"}
    assert storage_options_of_one("gs://b/ck", [one, two]) == {}
    assert storage_options_of_one("s3://b/ck", []) == {}
