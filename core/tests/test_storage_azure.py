"""Azure's blob storage, on a real server (Azurite): the decision log's atomic writes, blocks, and errors."""

from __future__ import annotations

import datetime
import io
import pickle
import threading

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._commit import Chain, Link, LinkKind
from penstock.errors import BadConfigurationError, RetriableError
from penstock.retry import RetryPolicy
from penstock.storage import AzureStorage, open_storage
from suite.azure import ACCOUNT


@pytest.fixture
def container(azure_server):
    return azure_server.new_container()


@pytest.fixture
def storage(azure_server):
    return azure_server.storage()


def sas_of(azure_server, **rights):
    rights = rights or dict.fromkeys(("read", "write", "delete", "list", "create", "add"), True)
    return generate_account_sas(
        ACCOUNT,
        azure_server.key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(**rights),
        datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1),
    )


@pytest.mark.parametrize("by", ["key", "sas", "?sas"])
def test_who_asks(azure_server, container, by):
    given = {"key": azure_server.key, "sas": sas_of(azure_server), "?sas": f"?{sas_of(azure_server)}"}[by]
    options = {"azure.endpoint": azure_server.endpoint, f"Azure.{by.lstrip('?').title()}": given}
    storage, path = open_storage(f"{azure_server.url(container)}/a/b/", options)
    assert path == f"{container}/a/b" and storage.url(path) == f"{azure_server.url(container)}/a/b"
    assert storage.create(f"{path}/x", b"1")
    pq.write_table(pa.table({"id": [1, 2]}), written := io.BytesIO())
    assert storage.fs.open_input_file(f"{path}/x").read() == b"1"
    storage.put(f"{path}/table", written.getvalue())
    assert pq.read_table(f"{path}/table", filesystem=storage.fs)["id"].to_pylist() == [1, 2]
    assert storage.list_tree(container) == [f"{path}/table", f"{path}/x"]
    assert given.lstrip("?") not in repr(storage)


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "wasb", "wasbs"])
@pytest.mark.parametrize("service", ["blob", "dfs"])
def test_all_names_of_an_account_mean_the_same(scheme, service):
    storage, path = open_storage(f"{scheme}://in@Acc.{service}.core.windows.net/a?b#c/*.csv", {"azure.key": "a2V5"})
    assert isinstance(storage, AzureStorage) and path == "in/a?b#c/*.csv"
    assert storage.url(path) == "abfss://in@acc.dfs.core.windows.net/a?b#c/*.csv"
    assert storage._endpoint == "https://acc.blob.core.windows.net"
    other, _ = open_storage("abfss://in@other.dfs.core.windows.net/", {"azure.key": "a2V5"})
    assert not storage.is_same_place(other)


@pytest.mark.parametrize(
    "url", ["abfss://container/path", "abfss://@account.dfs.core.windows.net/x", "abfss://a/b@c/d"]
)
def test_an_address_without_container_or_account(url):
    with pytest.raises(BadConfigurationError, match=r"names no container: write abfss://container@account"):
        open_storage(url)


def test_create_writes_once(storage, container):
    path = f"{container}/a/b"
    assert storage.create(path, b"1")
    assert not storage.create(path, b"2")
    assert (storage.read(path), storage.list_names(f"{container}/a"), storage.size(path)) == (b"1", ["b"], 1)
    storage.put(path, b"22")
    assert storage.read(path) == b"22" and 0 <= storage.age_s(path) < 600
    storage.delete([path, f"{container}/a/none"])
    assert storage.size(path) is None and storage.age_s(path) is None and storage.list_names(f"{container}/a") == []
    with pytest.raises(FileNotFoundError, match=f"{container}@.*/a/b"):
        storage.read(path)


def test_names_are_taken_as_they_are(storage, container):
    names = ["x y", "50%20", "é", "a+b", "a?b#c", "{x,y}*", "a&b=c;d"]
    for name in names:
        storage.put(f"{container}/d=1/{name}", name.encode())
    assert storage.list_names(f"{container}/d=1") == sorted(names)
    for name in names:
        path = f"{container}/d=1/{name}"
        assert storage.read(path) == storage.fs.open_input_file(path).read() == name.encode()
    storage.delete(storage.list_tree(container))
    assert storage.is_empty(container)


def test_what_is_empty_and_what_is_a_directory(storage, container, azure_server):
    """An account with a hierarchical namespace lists its directories as blobs; so do other clients, as Hadoop's."""
    assert storage.is_empty(f"{container}/below") and storage.is_empty("no-such-container/below")
    blobs = azure_server.client.get_container_client(container)
    blobs.upload_blob("below", b"", metadata={"hdi_isfolder": "true"})
    blobs.upload_blob("below/more/", b"")
    assert storage.is_empty(container) and storage.list_tree(container) == [] == storage.list_names(container)
    assert storage.size(f"{container}/below") is None
    storage.put(f"{container}/below/deep/file", b"1")
    assert not storage.is_empty(f"{container}/below") and storage.is_empty(f"{container}/bel")
    assert storage.list_tree(container) == [f"{container}/below/deep/file"] and storage.list_names(container) == []


def test_more_names_than_a_page_has(storage, container, monkeypatch):
    from azure.storage.blob import ContainerClient

    real = ContainerClient.list_blobs
    monkeypatch.setattr(ContainerClient, "list_blobs", lambda *given, **more: real(*given, **more, results_per_page=2))
    for number in range(5):
        storage.put(f"{container}/d/{number}", b"")
    assert storage.list_tree(f"{container}/d") == [f"{container}/d/{number}" for number in range(5)]


def test_a_file_is_put_from_its_beginning(storage, container, tmp_path):
    (tmp_path / "x").write_bytes(b"0123456789" * 1000)
    with open(tmp_path / "x", "rb") as file:
        file.read(100)
        storage.put_file(f"{container}/x", file)
    assert storage.read(f"{container}/x") == b"0123456789" * 1000


def test_moving_replaces(storage, container):
    storage.put(f"{container}/a", b"1")
    storage.put(f"{container}/d/b", b"0")
    storage.move_over(f"{container}/a", f"{container}/d/b")
    assert storage.list_tree(container) == [f"{container}/d/b"] and storage.read(f"{container}/d/b") == b"1"


def test_copies_work_in_other_processes(storage, container):
    copied = pickle.loads(pickle.dumps(storage.retrying(RetryPolicy(7))))
    copied.put(f"{container}/x", b"1")
    assert storage.read(f"{container}/x") == b"1" and copied.retry == RetryPolicy(7)


def test_of_many_drivers_one_decides(storage, container):
    won = []
    gate = threading.Barrier(6)

    def decide(driver):
        chain = Chain(pickle.loads(pickle.dumps(storage)), f"{container}/ck/decisions")
        gate.wait()
        if chain.create(Link(number=0, kind=LinkKind.CLAIM, base=0, id=str(driver), run=str(driver))):
            won.append(str(driver))

    threads = [threading.Thread(target=decide, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [Chain(storage, f"{container}/ck/decisions").head().link.run] == won


# What pyarrow sees.


def test_pyarrow_reads_and_lists(storage, container):
    table = pa.table({"a": list(range(10_000)), "ü": ["%", "?"] * 5_000})
    paths = [f"{container}/in/a.parquet", f"{container}/in/ü %41/b?#.parquet"]
    pq.write_table(table, written := io.BytesIO())
    for path in paths:
        storage.put(path, written.getvalue())
        assert pq.read_table(path, filesystem=storage.fs, partitioning=None) == table
        with storage.fs.open_input_file(path) as file:
            assert file.size() == storage.size(path)
            assert file.read_at(4, 0) == b"PAR1" == file.read_at(4, file.size() - 4)
        with storage.fs.open_input_stream(path) as stream:
            assert stream.read(4) == b"PAR1" and len(stream.read()) == storage.size(path) - 4
    infos = storage.fs.get_file_info(pafs.FileSelector(container, recursive=True))
    assert sorted(info.path for info in infos) == sorted(paths)
    assert all(info.mtime is not None and info.size for info in infos)
    below = storage.fs.get_file_info(pafs.FileSelector(f"{container}/in"))
    assert {info.path: info.is_file for info in below} == {paths[0]: True, f"{container}/in/ü %41": False}
    kinds = [storage.fs.get_file_info(path).type for path in (container, f"{container}/in", f"{container}/i", paths[0])]
    assert kinds == [pafs.FileType.Directory, pafs.FileType.Directory, pafs.FileType.NotFound, pafs.FileType.File]
    assert storage.fs.get_file_info("nowhere/in").type == pafs.FileType.NotFound
    assert storage.fs.get_file_info(pafs.FileSelector("nowhere/in", allow_not_found=True)) == []
    for missing in (
        lambda: storage.fs.open_input_file(f"{container}/no"),
        lambda: storage.fs.open_input_stream("nowhere/x"),
    ):
        with pytest.raises(FileNotFoundError, match="abfss://"):
            missing()
    assert storage.fs == pickle.loads(pickle.dumps(storage)).fs


def test_a_blob_that_is_replaced_while_it_is_read(storage, container):
    storage.put(f"{container}/x", b"1" * 100)
    with storage.fs.open_input_file(f"{container}/x") as file:
        assert file.read(10) == b"1" * 10
        storage.put(f"{container}/x", b"2" * 100)
        with pytest.raises(RetriableError, match="ConditionNotMet"):
            file.read(10)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 1, 2]), st.integers(-1, 30)), max_size=8))
def test_reading_is_as_of_any_file(storage, container, steps):
    content = bytes(range(40))
    storage.put(f"{container}/x", content)
    ours, expected = storage.fs.handler.open(f"{container}/x"), io.BytesIO(content)
    for offset, whence, length in steps:
        moved = -offset if whence == 2 else offset
        assert ours.seek(moved, whence) == expected.seek(moved, whence) == ours.tell()
        assert ours.read(length) == expected.read(length)


# Blocks.

IDS = ["MDAwMDAx", "MDAwMDAy"]


def stage(storage, path):
    for one in IDS:
        storage.stage_block(path, one, b"12345")


def test_blocks_are_hidden_until_they_are_committed_once(storage, container):
    path = f"{container}/out/x"
    stage(storage, path)
    assert storage.staged_blocks(path) == set(IDS)
    assert storage.list_tree(container) == [] and storage.size(path) is None and storage.is_empty(container)
    assert storage.fs.get_file_info(pafs.FileSelector(container, recursive=True)) == []
    storage.commit_blocks(path, IDS)
    assert storage.read(path) == b"1234512345" and storage.staged_blocks(path) == set()
    with pytest.raises(FileExistsError):
        storage.commit_blocks(path, IDS)
    storage.delete([path])
    with pytest.raises(FileNotFoundError, match="blocks"):
        storage.commit_blocks(path, IDS)
    assert storage.staged_blocks(path) == set() == storage.staged_blocks(f"{container}/none")


def test_blocks_that_are_discarded_are_never_committed(storage, container):
    path = f"{container}/out/x"
    stage(storage, path)
    for _ in range(2):
        storage.discard_blocks(path)
        assert storage.staged_blocks(path) == set() and storage.list_tree(container) == []
        with pytest.raises(FileNotFoundError):
            storage.commit_blocks(path, IDS)


def test_a_discard_that_was_killed_is_completed_by_the_next(storage, container):
    """It leaves an empty blob; a late commit does not replace it."""
    path = f"{container}/out/x"
    stage(storage, path)
    storage.commit_blocks(path, [])
    with pytest.raises(FileExistsError):
        storage.commit_blocks(path, IDS)
    storage.discard_blocks(path)
    assert storage.list_tree(container) == []


def test_two_discards_at_once(storage, container, monkeypatch):
    """The other one is quicker with the empty blob."""
    path = f"{container}/out/x"
    stage(storage, path)
    real = AzureStorage._look_up

    def look_and_lose(self, asked):
        found = real(self, asked)
        self.delete([asked])
        return found

    monkeypatch.setattr(AzureStorage, "_look_up", look_and_lose)
    storage.discard_blocks(path)
    assert storage.list_tree(container) == []


def test_what_is_committed_is_not_discarded(storage, container):
    path = f"{container}/out/x"
    stage(storage, path)
    storage.commit_blocks(path, IDS)
    storage.discard_blocks(path)
    assert storage.size(path) == 10


def test_of_commit_and_discard_at_once_one_wins(storage, container):
    for number in range(20):
        path = f"{container}/out/{number}"
        stage(storage, path)
        thread = threading.Thread(target=storage.discard_blocks, args=(path,))
        thread.start()
        try:
            storage.commit_blocks(path, IDS)
        except OSError:
            won = False
        else:
            won = True
        thread.join()
        assert (storage.size(path) == 10) == won


# Errors.


def test_errors_are_ours(azure_server, storage, monkeypatch):
    """Whatever library is behind it: OSError or RetriableError, with the address."""
    with pytest.raises(FileNotFoundError, match=r"abfss://nowhere@.*/x"):
        storage.put("nowhere/x", b"1")
    assert storage.list_names("nowhere") == []
    monkeypatch.setattr("penstock.storage._azure_client._RETRIES", 0)
    options = {"azure.endpoint": f"http://127.0.0.1:1/{ACCOUNT}", "azure.sas": sas_of(azure_server)}
    unreachable, _ = open_storage(azure_server.url("in"), options)
    for call in (
        lambda: unreachable.create("in/x", b"1"),
        lambda: unreachable.read("in/x"),
        lambda: unreachable.list_names("in"),
        lambda: unreachable.list_tree("in"),
        lambda: unreachable.delete(["in/x"]),
        lambda: unreachable.size("in/x"),
        lambda: unreachable.staged_blocks("in/x"),
    ):
        with pytest.raises(RetriableError, match="abfss://in@") as caught:
            call()
        assert "sig=" not in str(caught.value) and "\n" not in str(caught.value)


def test_who_may_not_is_told_what_to_check(azure_server, container):
    readonly = {"azure.endpoint": azure_server.endpoint, "azure.sas": sas_of(azure_server, read=True)}
    storage, _ = open_storage(azure_server.url(container), readonly)
    with pytest.raises(PermissionError, match=r"the store refuses it .*; check azure.key, azure.sas and rights"):
        storage.put(f"{container}/x", b"1")
    wrong, _ = open_storage(azure_server.url(container), {**azure_server.options(), "azure.key": "d3Jvbmc="})
    with pytest.raises(PermissionError, match="AuthorizationFailure") as caught:
        wrong.read(f"{container}/x")
    assert "d3Jvbmc=" not in str(caught.value)


def test_a_key_that_is_none(azure_server):
    storage, _ = open_storage(azure_server.url("in"), {"azure.key": "hunter2!"})
    with pytest.raises(BadConfigurationError, match=r"check azure.endpoint, azure.key and azure.sas") as caught:
        storage.read("in/x")
    assert "hunter2" not in str(caught.value)


def test_without_credentials(azure_server, monkeypatch, caplog):
    monkeypatch.setattr("penstock.storage._azure_client._RETRIES", 0)
    for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    from azure.identity import DefaultAzureCredential

    # Asking the machine's metadata service takes seconds where there is none.
    real = DefaultAzureCredential.__init__
    monkeypatch.setattr(
        DefaultAzureCredential, "__init__", lambda self: real(self, exclude_managed_identity_credential=True)
    )
    storage, _ = open_storage("abfss://in@account.dfs.core.windows.net/")
    with pytest.raises(BadConfigurationError, match=r"no credentials; give azure.key or azure.sas"):
        storage.read("in/x")
    assert caplog.text == ""
