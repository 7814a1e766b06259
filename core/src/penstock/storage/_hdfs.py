"""HDFS."""

from __future__ import annotations

import contextlib
import errno
import io
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow.fs as pafs

from penstock.errors import RetriableError
from penstock.storage._contract import ABANDONED_AFTER_S, Storage, is_temporary, temporary_for
from penstock.storage._hdfs_arrow import HdfsHandler
from penstock.storage._hdfs_client import NewFile, client_of, translated

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

__all__ = ["HdfsStorage"]

_BUFFER_BYTES = 1 << 20
_COPY_BYTES = 4 << 20


class HdfsStorage(Storage):
    """:meth:`create` is a rename, which the name node refuses where something has the name.

    ``root`` is ``hdfs://host:port/``, ``hdfs://nameservice/`` or ``viewfs://…/``. Hadoop's files in
    ``HADOOP_CONF_DIR``, or below ``HADOOP_HOME``, say where the name nodes of a name service are. Processes that were
    forked connect by themselves.
    """

    longest_path = 7999

    def __init__(self, root: str) -> None:
        self._root = root

    def __reduce__(self) -> Any:
        return (HdfsStorage, (self._root,), {"retry": self.retry})

    def __repr__(self) -> str:
        return f"HdfsStorage({self._root!r})"

    @property
    def _client(self) -> Client:
        """Of this process."""
        return client_of(self._root)

    @property
    def fs(self) -> pafs.FileSystem:
        # It is not kept: no collector of garbage sees that Arrow's own object refers to the handler and so to this one.
        return pafs.PyFileSystem(HdfsHandler(self))

    def url(self, path: str) -> str:
        return f"{self._root.removesuffix('/')}{path}"

    def _status(self, path: str) -> FileStatus | None:
        """Returns what there is of a file or a directory; ``None`` if it is not there."""
        with contextlib.suppress(FileNotFoundError), translated(self.url(path)):
            return self._client.get_file_info(path)
        return None

    def _statuses(self, directory: str, *, recursive: bool = False) -> list[FileStatus]:
        """Returns what is below a directory. Raises FileNotFoundError."""
        with translated(self.url(directory)):
            return [one for one in self._client.list_status(directory, recursive) if one.path != directory]

    def read(self, path: str) -> bytes:
        with translated(self.url(path)):
            return bytes(self._client.read(path).read())

    def size(self, path: str) -> int | None:
        status = self._status(path)
        return None if status is None or status.isdir else int(status.length)

    def list_names(self, directory: str) -> list[str]:
        try:
            found = self._statuses(directory)
        except FileNotFoundError:
            return []
        return sorted(name for one in found if not one.isdir and not is_temporary(name := _name(one)))

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with translated(self.url(path)):
                self._client.delete(path)

    def _write(self, path: str, data: bytes, *, durable: bool) -> None:
        with self._open(path) as file:
            file.write(data)
            if durable:
                file.sync()

    def _open(self, path: str) -> NewFile:
        from hdfs_native import WriteOptions

        where = self.url(path)
        with translated(where):
            return NewFile(self._client.create(path, WriteOptions(overwrite=False, create_parent=True)), where)

    def _write_and_rename(self, path: str, data: bytes, *, overwrite: bool, durable: bool) -> None:
        temporary = temporary_for(path)
        try:
            self._write(temporary, data, durable=durable)
            with translated(self.url(path)):
                self._client.rename(temporary, path, overwrite)
        except FileNotFoundError:
            # The client may have sent the rename twice, because the first answer was lost.
            if self.size(temporary) is not None or self.size(path) is None or self.read(path) != data:
                raise
        except BaseException:
            with contextlib.suppress(OSError, RetriableError):
                self.delete([temporary])
            raise

    def create(self, path: str, data: bytes) -> bool:
        try:
            self._write_and_rename(path, data, overwrite=False, durable=True)
        except FileExistsError:
            return False
        return True

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._write_and_rename(path, data, overwrite=True, durable=durable)

    def sweep(self, directory: str, older_than_s: float = ABANDONED_AFTER_S) -> int:
        before_ms = (time.time() - older_than_s) * 1000
        found: list[FileStatus] = []
        with contextlib.suppress(FileNotFoundError):
            found = self._statuses(directory)
        old = [one.path for one in found if is_temporary(_name(one)) and one.modification_time < before_ms]
        self.delete(old)
        return len(old)

    def make_durable(self, path: str) -> None:
        """A name is durable when the name node has answered; its bytes were before they got the name."""
        if not self.exists(path):
            raise FileNotFoundError(self.url(path))

    def open_new(self, path: str) -> BinaryIO:
        return cast(BinaryIO, io.BufferedWriter(self._open(path), _BUFFER_BYTES))

    def finish(self, file: BinaryIO) -> None:
        file.flush()
        cast(NewFile, cast(io.BufferedWriter, file).raw).sync()
        file.close()

    def is_away(self, directory: str) -> bool:
        status = self._status(directory)
        return status is None or not status.isdir

    def move(self, source: str, target: str) -> None:
        def rename() -> None:
            with translated(self.url(source)):
                self._client.rename(source, target)

        try:
            rename()
        except FileNotFoundError:
            if self._status(source) is None:
                raise
            with translated(self.url(target)):
                self._client.mkdirs(target.rpartition("/")[0], create_parent=True)
            rename()

    def add_name(self, source: str, target: str) -> None:
        """HDFS has no links."""
        with translated(self.url(source)):
            reader = self._client.read(source)
        copy = self.open_new(target)
        with copy:
            while True:
                with translated(self.url(source)):
                    piece = reader.read(_COPY_BYTES)
                if not piece:
                    break
                copy.write(piece)
            self.finish(copy)

    def list_tree(self, directory: str) -> list[str]:
        try:
            found = self._statuses(directory, recursive=True)
        except FileNotFoundError:
            return []
        return sorted(one.path for one in found if not one.isdir and not is_temporary(_name(one)))

    def remove_empty(self, directory: str) -> None:
        """Deletes one directory after the other: another process may be about to write into one of them."""
        try:
            below = [one.path for one in self._statuses(directory, recursive=True) if one.isdir]
        except FileNotFoundError:
            return
        for path in [*sorted(below, reverse=True), directory]:
            try:
                self.delete([path])
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise


def _name(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]
