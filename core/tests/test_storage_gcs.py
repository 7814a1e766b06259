"""Google Cloud Storage, on a real server (fake-gcs-server): the decision log's atomic writes, moves, and errors."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import threading

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._commit import Chain, Link, LinkKind
from penstock.errors import BadConfigurationError, RetriableError
from penstock.retry import RetryPolicy
from penstock.storage import GcsStorage, open_storage
from suite.gcs import service_account_key


@pytest.fixture
def bucket(gcs_server):
    return gcs_server.new_bucket()


@pytest.fixture
def storage(gcs_server):
    return gcs_server.storage()


@pytest.fixture
def fast(monkeypatch):
    """One try of each request."""
    monkeypatch.setattr("penstock.storage._gcs_client._TRIES", 1)


def test_an_address():
    storage, path = open_storage("gs://in/a?b#c/*.csv/")
    assert isinstance(storage, GcsStorage) and path == "in/a?b#c/*.csv"
    assert storage.url(path) == "gs://in/a?b#c/*.csv"
    assert storage.is_same_place(open_storage("gs://other/")[0])


@pytest.mark.parametrize("url", ["gs://", "gs:///x"])
def test_an_address_without_bucket(url):
    with pytest.raises(BadConfigurationError, match="names no bucket: write gs://bucket/prefix"):
        open_storage(url)


def test_an_emulator_that_the_environment_names(gcs_server, bucket, monkeypatch):
    """As Google's own tools read it, also without a scheme. Tasks go where the driver's says."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server.endpoint.removeprefix("http://"))
    stored = pickle.dumps(open_storage(f"gs://{bucket}/x"))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    storage, path = pickle.loads(stored)
    assert storage.create(path, b"1") and gcs_server.storage().read(path) == b"1"


def test_create_writes_once(storage, bucket):
    path = f"{bucket}/a/b"
    assert storage.create(path, b"1")
    assert not storage.create(path, b"2")
    assert (storage.read(path), storage.list_names(f"{bucket}/a"), storage.size(path)) == (b"1", ["b"], 1)
    storage.put(path, b"22")
    assert storage.read(path) == b"22"
    storage.delete([path, f"{bucket}/a/none"])
    assert storage.size(path) is None and storage.list_names(f"{bucket}/a") == []
    with pytest.raises(FileNotFoundError, match=f"gs://{bucket}/a/b"):
        storage.read(path)


def test_names_are_taken_as_they_are(storage, bucket):
    names = ["x y", "50%20", "é", "a+b", "a?b#c", "{x,y}*", "a&b=c;d"]
    for name in names:
        storage.put(f"{bucket}/d=1/{name}.tmp", name.encode())
        storage.move(f"{bucket}/d=1/{name}.tmp", f"{bucket}/d=1/{name}")
    assert storage.list_names(f"{bucket}/d=1") == sorted(names)
    for name in names:
        path = f"{bucket}/d=1/{name}"
        assert storage.read(path) == storage.fs.open_input_file(path).read() == name.encode()
    storage.delete(storage.list_tree(bucket))
    assert storage.is_empty(bucket)


def test_what_is_empty_and_what_is_a_directory(storage, bucket, gcs_server):
    """Google's console makes objects for folders."""
    assert storage.is_empty(f"{bucket}/below") and storage.is_empty("no-such-bucket/below")
    gcs_server.client.bucket(bucket).blob("below/more/").upload_from_string(b"")
    assert storage.is_empty(bucket) and storage.list_tree(bucket) == [] == storage.list_names(bucket)
    assert storage.size(f"{bucket}/below/more/") is None
    storage.put(f"{bucket}/below/deep/file", b"1")
    assert not storage.is_empty(f"{bucket}/below") and storage.is_empty(f"{bucket}/bel")
    assert storage.list_tree(bucket) == [f"{bucket}/below/deep/file"] and storage.list_names(bucket) == []


def test_more_names_than_a_page_has(storage, bucket, monkeypatch):
    from google.cloud.storage import Bucket

    real = Bucket.list_blobs
    monkeypatch.setattr(Bucket, "list_blobs", lambda *given, **more: real(*given, **more, page_size=2))
    for number in range(5):
        storage.put(f"{bucket}/d/{number}", b"")
    assert storage.list_tree(f"{bucket}/d") == [f"{bucket}/d/{number}" for number in range(5)]


def test_copies_work_in_other_processes(storage, bucket):
    copied = pickle.loads(pickle.dumps(storage.retrying(RetryPolicy(7))))
    copied.put(f"{bucket}/x", b"1")
    assert storage.read(f"{bucket}/x") == b"1" and copied.retry == RetryPolicy(7)


def at_once(work, count):
    """The results of ``work(number)`` in as many threads."""
    gate, results = threading.Barrier(count), [None] * count

    def run(number):
        gate.wait()
        results[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_of_many_drivers_one_decides(storage, bucket):
    def decide(driver):
        chain = Chain(pickle.loads(pickle.dumps(storage)), f"{bucket}/ck/decisions")
        return chain.create(Link(number=0, kind=LinkKind.CLAIM, base=0, id=str(driver), run=str(driver)))

    won = at_once(decide, 6)
    assert won.count(True) == 1
    assert Chain(storage, f"{bucket}/ck/decisions").head().link.run == str(won.index(True))


# What pyarrow sees.


def test_pyarrow_reads_and_lists(storage, bucket):
    table = pa.table({"a": list(range(10_000)), "ü": ["%", "?"] * 5_000})
    paths = [f"{bucket}/in/a.parquet", f"{bucket}/in/ü %41/b?#.parquet"]
    pq.write_table(table, written := io.BytesIO())
    for path in paths:
        storage.put(path, written.getvalue())
        assert pq.read_table(path, filesystem=storage.fs, partitioning=None) == table
        with storage.fs.open_input_file(path) as file:
            assert file.size() == storage.size(path)
            assert file.read_at(4, 0) == b"PAR1" == file.read_at(4, file.size() - 4)
        with storage.fs.open_input_stream(path) as stream:
            assert stream.read(4) == b"PAR1" and len(stream.read()) == storage.size(path) - 4
    infos = storage.fs.get_file_info(pafs.FileSelector(bucket, recursive=True))
    assert sorted(info.path for info in infos) == sorted(paths)
    assert all(info.mtime is not None and info.size for info in infos)
    below = storage.fs.get_file_info(pafs.FileSelector(f"{bucket}/in"))
    assert {info.path: info.is_file for info in below} == {paths[0]: True, f"{bucket}/in/ü %41": False}
    kinds = [storage.fs.get_file_info(path).type for path in (bucket, f"{bucket}/in", f"{bucket}/i", paths[0])]
    assert kinds == [pafs.FileType.Directory, pafs.FileType.Directory, pafs.FileType.NotFound, pafs.FileType.File]
    assert storage.fs.get_file_info("nowhere/in").type == pafs.FileType.NotFound
    assert storage.fs.get_file_info(pafs.FileSelector("nowhere/in", allow_not_found=True)) == []
    for missing in (
        lambda: storage.fs.open_input_file(f"{bucket}/no"),
        lambda: storage.fs.open_input_stream("nowhere/x"),
    ):
        with pytest.raises(FileNotFoundError, match="gs://"):
            missing()
    assert storage.fs == pickle.loads(pickle.dumps(storage)).fs


def test_an_object_that_is_replaced_while_it_is_read(storage, bucket):
    storage.put(f"{bucket}/x", b"1" * 100)
    with storage.fs.open_input_file(f"{bucket}/x") as file:
        assert file.read(10) == b"1" * 10
        storage.put(f"{bucket}/x", b"2" * 100)
        with pytest.raises(RetriableError, match="was replaced or removed"):
            file.read(10)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 1, 2]), st.integers(-1, 30)), max_size=8))
def test_reading_is_as_of_any_file(storage, bucket, steps):
    content = bytes(range(40))
    storage.put(f"{bucket}/x", content)
    ours, expected = storage.fs.handler.open(f"{bucket}/x"), io.BytesIO(content)
    for offset, whence, length in steps:
        moved = -offset if whence == 2 else offset
        assert ours.seek(moved, whence) == expected.seek(moved, whence) == ours.tell()
        assert ours.read(length) == expected.read(length)


def test_an_object_that_says_it_is_compressed_is_read_as_it_is(storage, bucket, gcs_server):
    """Google's store unpacks it for who does not ask otherwise."""
    blob = gcs_server.client.bucket(bucket).blob("x.csv.gz")
    blob.content_encoding = "gzip"
    blob.upload_from_string(packed := gzip.compress(b"1,2\n" * 100))
    assert storage.size(f"{bucket}/x.csv.gz") == len(packed) and storage.read(f"{bucket}/x.csv.gz") == packed
    with storage.fs.open_input_file(f"{bucket}/x.csv.gz") as file:
        assert file.read(10) + file.read() == packed


# Moves. The server does not have them: a proxy adds them, as Google documents them (tools/suite/gcs.py).


def stage(storage, path, data=b"12345"):
    return storage.stage_file(path, io.BytesIO(data))


@pytest.mark.parametrize("size", [0, 5, (8 << 20) + 1, 20 << 20], ids=["empty", "small", "two pieces", "three"])
def test_a_file_is_staged_from_its_beginning_and_copied(storage, bucket, size):
    stream = io.BytesIO(data := bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    stream.read(3)
    staged = storage.stage_file(f"{bucket}/x", stream)
    copied = storage.copy_file(f"{bucket}/x", f"{bucket}/y")
    assert storage.read(f"{bucket}/x") == storage.read(f"{bucket}/y") == data
    assert [staged, copied] == [storage.generation(f"{bucket}/x"), storage.generation(f"{bucket}/y")]
    assert staged != copied and storage.generation(f"{bucket}/z") == ""


def test_what_an_earlier_try_has_staged_is_taken_as_it_is(storage, bucket):
    """Its answer was lost. What has another length is something else."""
    first = stage(storage, f"{bucket}/x")
    assert stage(storage, f"{bucket}/x") == first
    with pytest.raises(RetriableError, match="is not what was written there"):
        stage(storage, f"{bucket}/x", b"1234567")
    assert storage.read(f"{bucket}/x") == b"12345"


def test_a_move_is_made_once_and_replaces_nothing(storage, bucket):
    source, target = f"{bucket}/hidden/x", f"{bucket}/out/x"
    staged = stage(storage, source)
    with pytest.raises(FileExistsError, match="condition"):
        storage.move(source, target, str(int(staged) + 1))
    storage.move(source, target, staged)
    assert storage.list_tree(bucket) == [target] and storage.read(target) == b"12345"
    with pytest.raises(FileNotFoundError):
        storage.move(source, target, staged)
    late = stage(storage, source)
    assert late != staged
    storage.delete([target])
    with pytest.raises(FileExistsError):
        storage.move(source, target, staged)
    storage.put(target, b"there")
    with pytest.raises(FileExistsError):
        storage.move(source, target, late)
    assert storage.read(target) == b"there" and storage.read(source) == b"12345"


def test_of_many_moves_at_once_one_wins(storage, bucket):
    def move(number):
        try:
            storage.move(f"{bucket}/x", f"{bucket}/out/{number}")
        except OSError:
            return False
        return True

    for _ in range(5):
        stage(storage, f"{bucket}/x")
        won = at_once(move, 6)
        assert storage.list_tree(bucket) == [f"{bucket}/out/{won.index(True)}"] and won.count(True) == 1
        storage.delete(storage.list_tree(bucket))


def test_moving_over_replaces(storage, bucket, gcs_server):
    other = gcs_server.new_bucket()
    storage.put(f"{bucket}/a", b"1")
    storage.put(f"{bucket}/d/b", b"0")
    storage.move_over(f"{bucket}/a", f"{bucket}/d/b")
    assert storage.list_tree(bucket) == [f"{bucket}/d/b"] and storage.read(f"{bucket}/d/b") == b"1"
    storage.put(f"{other}/c", b"0")
    storage.move_over(f"{bucket}/d/b", f"{other}/c")
    assert storage.is_empty(bucket) and storage.read(f"{other}/c") == b"1"
    with pytest.raises(FileNotFoundError):
        storage.move_over(f"{bucket}/d/b", f"{other}/c")


def test_a_store_that_moves_as_it_should(storage, bucket):
    storage.check_moves(f"{bucket}/out/.penstock")
    assert storage.is_empty(bucket)


def test_a_store_without_moves_is_refused(gcs_server, bucket):
    """It is what the server is without the proxy."""
    plain, _ = open_storage("gs://any", {"gcs.endpoint": gcs_server.plain})
    with pytest.raises(BadConfigurationError, match=r"gs://b.*: its store does not move files in one step"):
        plain.check_moves(f"{bucket}/out")
    assert plain.is_empty(bucket)


@pytest.mark.parametrize(
    ("does", "said"),
    [("copies", "leaves files that it has moved"), ("replaces", "replaces the file that has a name")],
)
def test_a_store_whose_moves_are_something_else_is_refused(storage, bucket, monkeypatch, does, said):
    def move(self, source, target, **conditions):
        self.put(target, self.read(source))
        if does == "replaces":
            self.delete([source])

    monkeypatch.setattr(GcsStorage, "_move", move)
    with pytest.raises(BadConfigurationError, match=said):
        storage.check_moves(f"{bucket}/out")
    assert storage.is_empty(bucket)


# Errors.


def test_errors_are_ours(storage, fast):
    """Whatever library is behind it: OSError or RetriableError, with the address."""
    with pytest.raises(FileNotFoundError, match=r"gs://nowhere/x"):
        storage.put("nowhere/x", b"1")
    assert storage.list_names("nowhere") == []
    unreachable, _ = open_storage("gs://in", {"gcs.endpoint": "http://127.0.0.1:1"})
    for call in (
        lambda: unreachable.create("in/x", b"1"),
        lambda: unreachable.read("in/x"),
        lambda: unreachable.list_names("in"),
        lambda: unreachable.list_tree("in"),
        lambda: unreachable.delete(["in/x"]),
        lambda: unreachable.size("in/x"),
        lambda: unreachable.move("in/x", "in/y"),
        lambda: unreachable.check_moves("in"),
        lambda: stage(unreachable, "in/x"),
    ):
        with pytest.raises(RetriableError, match="gs://in") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_the_address_of_an_upload_does_not_show(storage, bucket, monkeypatch, fast):
    """Whoever has it can go on with the upload."""
    from google.auth.transport.requests import AuthorizedSession

    real = AuthorizedSession.request

    def cut(self, method, url, *given, **more):
        if "upload_id=" in url:
            url = url.replace(gcs_port, "127.0.0.1:1")
        return real(self, method, url, *given, **more)

    gcs_port = storage._account.endpoint.removeprefix("http://")
    monkeypatch.setattr(AuthorizedSession, "request", cut)
    with pytest.raises(RetriableError) as caught:
        stage(storage, f"{bucket}/x", b"x" * (9 << 20))
    assert "upload_id" not in str(caught.value) and caught.value.__cause__ is None
    assert storage.is_empty(bucket)


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, PermissionError, "gs://in/x: 401: .*; check gcs.credentials and rights"),
        (403, PermissionError, "gs://in/x: 403: .*; check gcs.credentials and rights"),
        (400, OSError, "the store does not take the request"),
        (429, RetriableError, "gs://in/x: 429"),
        (503, RetriableError, "gs://in/x: 503"),
    ],
)
def test_answers_of_the_store(monkeypatch, fast, status, kind, said):
    """Which the server never gives: it knows no rights and is never busy."""
    import requests
    from google.auth.transport.requests import AuthorizedSession

    def answer(self, method, url, *given, **more):
        found = requests.Response()
        found.status_code, found.url, found.request = status, url, requests.Request(method, url)
        found._content = json.dumps({"error": {"code": status, "message": "no"}}).encode()
        return found

    monkeypatch.setattr(AuthorizedSession, "request", answer)
    storage, _ = open_storage("gs://in", {"gcs.endpoint": "http://127.0.0.1:1"})
    for call in (lambda: storage.size("in/x"), lambda: storage.delete(["in/x"]), lambda: storage.move("in/x", "in/y")):
        with pytest.raises(kind, match=said):
            call()


def test_a_request_is_made_six_times(monkeypatch):
    import requests
    from google.auth.transport.requests import AuthorizedSession

    asked = []

    def time_out(self, method, url, *given, **more):
        asked.append(method)
        raise requests.ReadTimeout("no answer")

    monkeypatch.setattr(AuthorizedSession, "request", time_out)
    monkeypatch.setattr("penstock.storage._gcs_client._FIRST_PAUSE_S", 0.001)
    storage, _ = open_storage("gs://in", {"gcs.endpoint": "http://127.0.0.1:1"})
    for call in (lambda: storage.size("in/x"), lambda: storage.create("in/x", b""), lambda: storage.read("in/x")):
        asked.clear()
        with pytest.raises(RetriableError, match="gs://in/x: no answer"):
            call()
        assert len(asked) == 6


def test_credentials_that_are_none(monkeypatch):
    storage, _ = open_storage("gs://in", {"gcs.credentials": '{"type": "service_account", "private_key": "hunter2"}'})
    with pytest.raises(BadConfigurationError, match=r"gcs.credentials is not the JSON key") as caught:
        storage.read("in/x")
    assert "hunter2" not in str(caught.value) and "hunter2" not in repr(storage)


def test_without_credentials(monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    storage, _ = open_storage("gs://in/")
    with pytest.raises(BadConfigurationError, match=r"no credentials for Google's store; give gcs.credentials, or set"):
        storage.read("in/x")
    assert caplog.text == ""


def test_who_asks_with_a_key(monkeypatch, fast):
    """The key signs; what Google's token server answers is not ours. Over a connection without TLS, nobody asks."""
    given = service_account_key("http://127.0.0.1:1/token")
    storage, _ = open_storage("gs://in", {"GCS.Credentials": given, "gcs.endpoint": "https://127.0.0.1:1"})
    with pytest.raises(RetriableError, match=r"gs://in/x: .*/token"):
        storage.read("in/x")
    plain, _ = open_storage("gs://in", {"gcs.credentials": given, "gcs.endpoint": "http://127.0.0.1:1"})
    with pytest.raises(RetriableError) as caught:
        plain.read("in/x")
    assert "/token" not in str(caught.value)


def test_the_library_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "google.cloud.storage", None)
    with pytest.raises(BadConfigurationError, match=r"pip install 'penstock\[gcs\]'"):
        open_storage("gs://in", {"gcs.endpoint": "http://127.0.0.1:2"})
