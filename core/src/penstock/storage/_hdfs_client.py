"""The client of HDFS: hdfs-native, which needs neither Java nor libhdfs. One for each cluster and process."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

from penstock.error_codes import NOT_INSTALLED
from penstock.errors import BadConfigurationError, RetriableError
from penstock.per_process import PerProcess

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileWriter

__all__ = ["NewFile", "OpenFile", "client_of", "translated"]

#: How the client writes an exception of the name node: its class and what it says, as Rust writes texts.
_OF_THE_SERVER = re.compile(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)"\)', re.DOTALL)
_REFUSED = ("AccessControlException", "AuthorizationException")
_NOT_EMPTY = "PathIsNotEmptyDirectoryException"
_OVER_QUOTA = ("NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException")


class _Cluster(NamedTuple):
    """What a client is made of."""

    root: str
    conf_dir: str


def _settings(root: str) -> dict[str, str]:
    """Returns the settings of the client that count whatever Hadoop's files say."""
    host = root.partition("://")[2].rstrip("/")
    return {
        # Each name node twice, within two seconds; then the error is ours to say, and the call to be made again.
        "dfs.client.failover.max.attempts": "3",
        "dfs.client.failover.sleep.base.millis": "100",
        "dfs.client.failover.sleep.max.millis": "500",
        # An observer may not know yet what another process has just written.
        f"dfs.client.failover.proxy.provider.{host}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
    }


def _connect(cluster: _Cluster) -> Client:
    try:
        from hdfs_native import Client
    except ImportError:
        raise BadConfigurationError(
            "HDFS needs hdfs-native: pip install 'penstock[hdfs]'", error_code=NOT_INSTALLED
        ) from None
    try:
        root = cluster.root if urlsplit(cluster.root).netloc else _default_root(cluster.conf_dir)
        return Client(root, _settings(root), cluster.conf_dir or None)
    except Exception as error:
        raise BadConfigurationError(
            f"{cluster.root}: {error}; give the name node as hdfs://host:port/, or set HADOOP_CONF_DIR to the folder "
            "with core-site.xml and hdfs-site.xml"
        ) from error


def _default_root(conf_dir: str) -> str:
    """Returns Hadoop's ``fs.defaultFS``. Raises OSError, ParseError, ValueError."""
    for one in ElementTree.parse(Path(conf_dir, "core-site.xml")).iter("property"):  # noqa: S314 - Hadoop's own file
        if one.findtext("name") == "fs.defaultFS":
            return one.findtext("value") or ""
    raise ValueError("there is no fs.defaultFS in core-site.xml")


def _files_of(cluster: _Cluster) -> list[str]:
    return [str(Path(cluster.conf_dir, name)) for name in ("core-site.xml", "hdfs-site.xml") if cluster.conf_dir]


def _conf_dir() -> str:
    """Returns where Hadoop's own tools look for their settings; empty for nowhere."""
    if folder := os.environ.get("HADOOP_CONF_DIR"):
        return folder
    home = os.environ.get("HADOOP_HOME")
    return f"{home}/etc/hadoop" if home else ""


#: A client has threads, so it is of no use in a forked process.
_clients: PerProcess[_Cluster, Client] = PerProcess(_connect, files=_files_of)


def client_of(root: str) -> Client:
    """Returns this process's client, whose calls belong inside of :func:`translated`. Raises BadConfigurationError."""
    return _clients.get(_Cluster(root, _conf_dir()))


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Translates the client's errors, with ``where`` (an address) in the message, and without Java's stack.

    Raises FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, or an OSError of a full quota or a
    directory that is not empty; else RetriableError.
    """
    try:
        yield
    except OSError as error:
        if type(error) is OSError:  # of the network
            raise RetriableError(f"{where}: {_first_line(str(error))}") from error
        raise type(error)(f"{where}: {_first_line(str(error))}") from error
    except RuntimeError as error:
        found = _OF_THE_SERVER.search(str(error))
        kind, said = (found[1].rpartition(".")[2], _first_line(found[2])) if found else ("", _first_line(str(error)))
        if kind in _REFUSED:
            raise PermissionError(f"{where}: HDFS refuses it: {said}") from error
        if kind == _NOT_EMPTY:
            raise OSError(errno.ENOTEMPTY, said, where) from error
        if kind in _OVER_QUOTA:
            raise OSError(errno.EDQUOT, said, where) from error
        raise RetriableError(f"{where}: {said}") from error


def _first_line(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").strip().partition("\n")[0]


class NewFile(io.RawIOBase):
    """A file that is being written. There under its name at once, with all of its bytes once it is closed.

    Raises RetriableError if it was removed meanwhile: what is written without a name goes nowhere.
    """

    def __init__(self, writer: FileWriter, where: str) -> None:
        super().__init__()
        self._writer = writer
        self._where = where
        self._is_empty = True

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._is_empty = False
        with self._watched():
            return self._writer.write(data)

    def sync(self) -> None:
        """Has the bytes on the disks of the data nodes. A file without any has no block there."""
        if not self._is_empty:
            with self._watched():
                self._writer.hsync()

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._watched():
                self._writer.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            with translated(self._where):
                yield
        except FileNotFoundError as error:
            raise RetriableError(
                f"{self._where} was removed while it was written: this attempt was cleaned up, it is not the last"
            ) from error


class OpenFile(io.RawIOBase):
    """A file that is being read."""

    def __init__(self, reader: FileReader, where: str) -> None:
        super().__init__()
        self._reader = reader
        self._where = where

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._reader.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._reader.tell())

    def size(self) -> int:
        return len(self._reader)

    def read(self, size: int = -1) -> bytes:
        with translated(self._where):
            return bytes(self._reader.read(size))

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
