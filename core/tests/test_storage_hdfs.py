"""HDFS as a place for files: on a real one."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from penstock.errors import BadConfigurationError, RetriableError
from penstock.retry import RetryPolicy
from penstock.storage import HdfsStorage, open_storage
from suite.hdfs import NameService, started_hdfs, started_name_service

pytestmark = [pytest.mark.timeout(240), pytest.mark.budget(15)]  # one of them starts the server


@pytest.fixture
def storage(hdfs):
    return hdfs.storage


@pytest.fixture
def folder(hdfs):
    return hdfs.new_folder()


def written(storage, path, data):
    file = storage.open_new(path)
    file.write(data)
    storage.finish(file)
    return path


def test_a_file_is_made_once_and_replaced_as_a_whole(storage, folder):
    path = f"{folder}/a/b"
    assert storage.create(path, b"1") and not storage.create(path, b"2")
    assert storage.read(path) == b"1" and storage.list_names(f"{folder}/a") == ["b"]
    storage.put(path, b"33")
    assert storage.read(path) == b"33" and storage.size(path) == 2
    storage.put(path, b"", durable=False)
    assert storage.size(path) == 0
    storage.make_durable(path)
    storage.delete([path, f"{folder}/a/none"])
    assert storage.size(path) is None and storage.list_tree(folder) == []
    for ask in (storage.read, storage.make_durable):
        with pytest.raises(FileNotFoundError, match=rf"hdfs://127.*{path}"):
            ask(path)


def test_what_is_not_there(storage, folder):
    assert storage.list_names(folder) == [] and storage.list_tree(folder) == []
    assert storage.size(folder) is None and not storage.exists(folder)
    storage.remove_empty(folder)
    assert storage.sweep(folder) == 0
    assert storage.is_away(folder)
    storage.create(f"{folder}/x", b"")
    assert not storage.is_away(folder) and storage.is_away(f"{folder}/x")


RACING = """
import sys
from penstock.storage import open_storage
storage, path = open_storage(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(storage.create(path, sys.argv[2].encode()))
"""


def test_of_many_processes_and_threads_one_wins(hdfs, storage, folder):
    command = [sys.executable, "-c", RACING, f"{hdfs.url}{folder}/x"]
    racers = [
        subprocess.Popen([*command, str(i)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for i in range(3)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    won = {}
    threads = [
        threading.Thread(target=lambda i=i: won.update({str(i): storage.create(f"{folder}/x", b"%d" % i)}))
        for i in range(3, 7)
    ]
    for thread in threads:
        thread.start()
    said = [racer.communicate("\n")[0] for racer in racers]
    for thread in threads:
        thread.join()
    won |= {str(i): words == "True\n" for i, words in enumerate(said)}
    (winner,) = [name for name, has_won in won.items() if has_won]
    assert len(won) == 7 and storage.read(f"{folder}/x") == winner.encode()
    assert storage.list_names(folder) == ["x"]


KILLED = """
import os, signal, sys
from penstock.storage import open_storage
from penstock.storage._hdfs_client import NewFile
storage, path = open_storage(sys.argv[1])
NewFile.sync = lambda self: os.kill(os.getpid(), signal.SIGKILL)
storage.create(path, b"1")
"""


def test_what_a_killed_write_leaves_is_not_shown_and_swept_once_it_is_old(hdfs, storage, folder):
    ended = subprocess.run([sys.executable, "-c", KILLED, f"{hdfs.url}{folder}/x"], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(storage._statuses(folder)) == 1
    assert storage.list_names(folder) == [] and storage.list_tree(folder) == []
    assert storage.sweep(folder) == 0, "its process may be alive"
    assert storage.create(f"{folder}/x", b"2")
    assert storage.sweep(folder, older_than_s=-3600) == 1
    assert [one.path for one in storage._statuses(folder)] == [f"{folder}/x"]


def test_a_hidden_file_is_published_by_one_rename(storage, folder):
    hidden = written(storage, f"{folder}/.penstock/h", b"x" * 3_000_000)
    assert storage.size(hidden) == 3_000_000
    storage.add_name(hidden, f"{folder}/.penstock/copy")
    storage.move(hidden, f"{folder}/day=1/final")
    assert storage.list_tree(folder) == [f"{folder}/.penstock/copy", f"{folder}/day=1/final"]
    assert storage.read(f"{folder}/.penstock/copy") == b"x" * 3_000_000
    with pytest.raises(FileNotFoundError):
        storage.move(hidden, f"{folder}/day=2/final")
    assert storage.is_away(f"{folder}/day=2"), "no directory is made for nothing"
    written(storage, hidden, b"other")
    with pytest.raises(FileExistsError):
        storage.move(hidden, f"{folder}/day=1/final")
    assert storage.size(f"{folder}/day=1/final") == 3_000_000


def test_empty_directories_are_removed_and_no_others(storage, folder):
    written(storage, f"{folder}/a/b/c/file", b"1")
    storage.fs.create_dir(f"{folder}/a/empty/below", recursive=True)
    storage.remove_empty(f"{folder}/a")
    assert storage.list_tree(folder) == [f"{folder}/a/b/c/file"] and storage.is_away(f"{folder}/a/empty")
    storage.delete([f"{folder}/a/b/c/file"])
    storage.remove_empty(f"{folder}/a")
    assert storage.is_away(f"{folder}/a")


def test_pyarrow_reads_writes_and_lists(storage, folder):
    table = pa.table({"a": list(range(10_000)), "ü": ["%", "?"] * 5_000})
    paths = [f"{folder}/a.parquet", f"{folder}/ü %41/b?#.parquet"]
    for path in paths:
        with storage.open_new(path) as file:
            pq.write_table(table, file)
        assert pq.read_table(path, filesystem=storage.fs, partitioning=None) == table
        with storage.fs.open_input_file(path) as file:
            assert file.size() == storage.size(path)
            assert file.read_at(4, 0) == b"PAR1" == file.read_at(4, file.size() - 4)
        with storage.fs.open_input_stream(path) as stream:
            assert len(stream.read()) == storage.size(path)
    infos = storage.fs.get_file_info(pafs.FileSelector(folder, recursive=True))
    assert sorted(info.path for info in infos if info.is_file) == sorted(paths)
    assert all(info.mtime is not None and info.size for info in infos if info.is_file)
    with pytest.raises(FileNotFoundError):
        storage.fs.get_file_info(pafs.FileSelector(f"{folder}/none"))
    assert storage.fs.get_file_info(f"{folder}/none").type == pafs.FileType.NotFound


FORKED = """
import os, signal, sys
from penstock.storage import open_storage
storage, path = open_storage(sys.argv[1])
storage.create(path + "/x", b"1")
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if storage.create(path + "/y", b"2") and storage.read(path + "/x") == b"1" else 1)
assert os.waitpid(child, 0)[1] == 0
assert storage.create(path + "/z", b"3")
"""


def test_a_forked_process_connects_by_itself(hdfs, storage, folder):
    """A client's threads are not there in the child, which would wait for them."""
    subprocess.run([sys.executable, "-c", FORKED, f"{hdfs.url}{folder}"], check=True)
    assert storage.list_names(folder) == ["x", "y", "z"]


def test_addresses(hdfs, folder):
    storage, path = open_storage(f"{hdfs.url}{folder}/a?b#c/")
    assert path == f"{folder}/a?b#c" and storage.url(path) == f"{hdfs.url}{path}"
    assert storage.create(f"{path}/x", b"1")
    copy = pickle.loads(pickle.dumps(storage.retrying(RetryPolicy(7))))
    assert copy.retry == RetryPolicy(7) and copy.read(f"{path}/x") == b"1"


def test_hadoops_files_are_asked_for_a_name_service(hdfs, folder, tmp_path, monkeypatch):
    with pytest.raises(BadConfigurationError, match=r"hdfs://main/: .*set HADOOP_CONF_DIR"):
        HdfsStorage("hdfs://main/").size("/x")
    settings = {"dfs.nameservices": "main", "dfs.ha.namenodes.main": "a", "fs.defaultFS": "hdfs://main"}
    settings["dfs.namenode.rpc-address.main.a"] = hdfs.name_node.address
    NameService({}, hdfs.data_node, settings).write_settings(tmp_path)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for root in ("hdfs://main/", "hdfs:///"):
        storage, path = open_storage(f"{root}{folder.lstrip('/')}")
        storage.put(f"{path}/x", b"1")
    assert hdfs.storage.list_names(folder) == ["x"]


@pytest.mark.exhaustive("three servers of its own; test_hadoops_files_are_asked_for_a_name_service has the addresses")
@pytest.mark.budget(60)
def test_the_active_name_node_fails(tmp_path, monkeypatch):
    """What it has answered is there, and a call waits until the other one is active."""
    for cluster in started_name_service(tmp_path):
        cluster.write_settings(tmp_path)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        storage = HdfsStorage("hdfs://main/").retrying(RetryPolicy(120))
        assert storage.create("/ck/0", b"0")
        hidden = written(storage, "/out/.penstock/h", b"x" * 1000)
        cluster.name_nodes["a"].kill()
        other = threading.Timer(2.0, cluster.activate, ["b"])
        other.start()
        storage.move(hidden, "/out/final")
        assert not storage.create("/ck/0", b"1") and storage.create("/ck/1", b"1")
        assert storage.list_tree("/out") == ["/out/final"] and storage.read("/out/final") == b"x" * 1000
        other.join()


@pytest.mark.exhaustive("a server of its own; test_storage.py has what is tried again, and test_addresses the policy")
def test_a_name_node_that_restarts_is_waited_for(tmp_path):
    for hdfs in started_hdfs(tmp_path):
        storage = hdfs.storage
        storage.create("/a", b"1")
        hdfs.name_node.kill()
        with pytest.raises(RetriableError, match=rf"{hdfs.url}/.*refused"):
            storage.create("/b", b"1")
        back = threading.Timer(1.0, hdfs.start)
        back.start()
        patient = storage.retrying(RetryPolicy(120))
        assert patient.create("/b", b"2") and patient.read("/a") == b"1"
        back.join()


@pytest.mark.exhaustive("a server of its own; errors of the name node are also in the other tests")
def test_what_is_refused_is_said_in_a_line(tmp_path, monkeypatch):
    for hdfs in started_hdfs(tmp_path, {"dfs.permissions.enabled": "true"}):
        owner = hdfs.storage
        owner.create("/private/x", b"1")
        owner._client.set_permission("/private", 0o700)
        script = (
            "import sys; from penstock.storage import open_storage; from penstock.retry import may_pass\n"
            "storage, path = open_storage(sys.argv[1])\n"
            "for call in (lambda: storage.create(path + '/y', b''), lambda: storage.read(path + '/x')):\n"
            "    try: call()\n"
            "    except PermissionError as error: print(may_pass(error), error)\n"
        )
        environment = {**os.environ, "HADOOP_USER_NAME": "mallory"}
        command = [sys.executable, "-c", script, f"{hdfs.url}/private"]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert said.count("\n") == 2 and said.count("False hdfs://127") == 2, said
        assert said.count("Permission denied: user=mallory") == 2 and "at org." not in said
        with pytest.raises(OSError) as raised:
            owner._client.set_permission("/none", 0o700)
        assert raised.value.errno != errno.EACCES
