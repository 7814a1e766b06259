"""Files of which a store may send less than they have, without an error."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import RetriableError
from penstock.storage import RangedFile

__all__ = ["WholeFile", "check_size"]


def check_size(file: pa.NativeFile, size: int, url: str) -> None:
    """Closes a file that does not have ``size`` bytes, and raises RetriableError."""
    found = file.size()
    if found != size:
        file.close()
        raise RetriableError(
            f"{url} has {size} bytes, and {found} when it is opened: it has changed, or an answer was cut off"
        )


class WholeFile(RangedFile):
    """The bytes of an open file of Arrow's, which it closes. ``read`` gives fewer than it is asked for only at the end.

    Raises RetriableError where fewer come.
    """

    def __init__(self, file: pa.NativeFile, size: int, url: str) -> None:
        check_size(file, size, url)

        def read_range(offset: int, length: int) -> bytes:
            if file.tell() != offset:
                file.seek(offset)
            data = bytes(file.read(length))
            if len(data) < length:
                raise RetriableError(
                    f"{url}: {len(data)} bytes came where {length} are: it has changed, or an answer was cut off"
                )
            return data

        super().__init__(read_range, size)
        self._file = file

    def close(self) -> None:
        """Closes the file below."""
        if not self.closed:
            self._file.close()
        super().close()
