"""Paths without a scheme: on the local disk, or on the default file system of Spark's Hadoop."""

from __future__ import annotations

import json
import os
import pickle
from types import SimpleNamespace

import pytest

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet
from penstock.spark._locations import LOCAL, Home
from penstock.storage import HdfsStorage, LocalStorage, open_storage

HDFS = Home("hdfs://main:8020/user/me")
DECLARED = OptionSet(
    (
        Option("path", "", kind="path", aliases=("location",)),
        Option("paths", "", kind="paths"),
        Option("archive", "", kind="path"),
        Option("text", ""),
    )
)


@pytest.mark.parametrize(
    ("path", "local", "hdfs"),
    [
        ("/data/in", "/data/in", "hdfs://main:8020/data/in"),
        ("data/a=1/*.csv", "{cwd}/data/a=1/*.csv", "hdfs://main:8020/user/me/data/a=1/*.csv"),
        ("a?b#c:d", "{cwd}/a?b#c:d", "hdfs://main:8020/user/me/a?b#c:d"),
        ("s3://bucket/x", "s3://bucket/x", "s3://bucket/x"),
        ("file:/x", "file:/x", "file:/x"),
        ("file:x", "file:x", "file:x"),
        ("hdfs:/x", "hdfs:/x", "hdfs:/x"),
        ("c:/x", "{cwd}/c:/x", "hdfs://main:8020/user/me/c:/x"),
    ],
)
def test_a_path(path, local, hdfs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert LOCAL.locate(path) == local.format(cwd=tmp_path)
    assert pickle.loads(pickle.dumps(HDFS)).locate(path) == hdfs


def test_every_option_that_is_a_path_is_located_and_no_other():
    given = {"Location": "/a", "paths": '["/b", "s3://c/d"]', "archive": "e", "text": "/f", "unknown": "/g"}
    assert HDFS.locate_options(given, DECLARED) == {
        "Location": "hdfs://main:8020/a",
        "paths": json.dumps(["hdfs://main:8020/b", "s3://c/d"]),
        "archive": "hdfs://main:8020/user/me/e",
        "text": "/f",
        "unknown": "/g",
    }
    for wrong in ("no list", '["/a", 1]', '"/a"'):
        assert HDFS.locate_options({"paths": wrong}, DECLARED) == {"paths": wrong}


def test_a_path_of_which_nothing_is_declared_is_local_and_absolute(tmp_path, monkeypatch):
    """Executors have working directories of their own."""
    monkeypatch.chdir(tmp_path)
    declared = OptionSet((Option("path", ""),))
    assert HDFS.locate_options({"PATH": "x.db"}, declared) == {"PATH": f"{tmp_path}/x.db"}
    assert HDFS.locate_options({"path": "other://x"}, declared) == {"path": "other://x"}


class _Context:
    """What is asked of Spark's."""

    def __init__(self, default, working_directory=None):
        self._jsc = SimpleNamespace(hadoopConfiguration=lambda: {"fs.defaultFS": default})
        self._directory = working_directory
        fs = SimpleNamespace(FileSystem=SimpleNamespace(get=self._file_system))
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=fs))))

    def _file_system(self, settings):
        if self._directory is None:
            raise RuntimeError("No FileSystem for scheme")
        return SimpleNamespace(getWorkingDirectory=lambda: SimpleNamespace(toString=lambda: self._directory))


@pytest.mark.parametrize("default", ["file:///", "dbfs:/", "", None])
def test_a_file_system_that_is_mounted_is_local(default):
    assert Home.of(_Context(default), "").locate("/x") == "/x"
    over_connect = Home.of(None, default or "")
    assert over_connect.locate("/x") == "/x"
    with pytest.raises(BadConfigurationError, match=r"path 'x': over Spark Connect .* give the absolute path"):
        over_connect.locate("x")


def test_spark_says_where_relative_paths_are():
    home = Home.of(_Context("hdfs://main", "hdfs://main/user/me"), "")
    assert (home.locate("/x"), home.locate("x")) == ("hdfs://main/x", "hdfs://main/user/me/x")


@pytest.mark.parametrize("context", [None, _Context("s3a://bucket/")])
def test_where_spark_does_not_say_so_they_are_refused(context):
    home = Home.of(context, "s3a://bucket")
    assert home.locate("/x") == "s3a://bucket/x"
    with pytest.raises(BadConfigurationError, match=r"path 'x': .*s3a://bucket, .*give the whole address"):
        home.locate("x")


def test_an_address_without_a_host_is_no_local_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage, path = open_storage("hdfs:/data")
    assert isinstance(storage, HdfsStorage) and path == "/data" and storage.url(path) == "hdfs:///data"
    for url, path in (
        ("file:x", f"{os.getcwd()}/x"),
        ("a:b/c", f"{os.getcwd()}/a:b/c"),
        ("ab:c", f"{os.getcwd()}/ab:c"),
    ):
        assert isinstance(open_storage(url)[0], LocalStorage) and open_storage(url)[1] == path
    with pytest.raises(BadConfigurationError, match="no file system for 'ftp://'"):
        open_storage("ftp:/host")
    for url in ("s3:/bucket/x", "s3:///x", "s3://", "gs:/bucket/x"):
        with pytest.raises(BadConfigurationError, match="names no bucket"):
            open_storage(url)
