"""Which blocks of the files a schema is inferred from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock_filesystem.formats._blocks import BLOCK_BYTES, Block
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._lines import LineReader

__all__ = ["BlockSampler"]

_NOTHING = pa.schema([])


class BlockSampler:
    """Takes every block, or the first of all files and then as many as ``ratio`` says, evenly.

    A block has about 4 MiB. Those that are not taken are not read, if rows can be found from anywhere in the file.
    ``progress`` gets the bytes of the file that each block is of, taken or not.
    """

    def __init__(self, reader: LineReader, ratio: float, progress: Callable[[int], object]) -> None:
        self._reader = reader
        self._ratio = ratio
        self._progress = progress
        self._owed = 1.0

    def blocks(self, file: InputFile) -> Iterator[Block]:
        """Yields the blocks of a file."""
        if not self._reader.is_splittable(file.path):
            yield from (block for block in self._reader.elements(file, 0, file.size, _NOTHING) if self._takes())
            self._progress(file.size)
        elif self._ratio == 1:
            for block in self._reader.elements(file, 0, file.size, _NOTHING):
                yield block
                self._progress(len(block.data))
        else:
            for start in range(0, file.size, BLOCK_BYTES):
                end = min(start + BLOCK_BYTES, file.size)
                if self._takes():
                    yield from self._reader.elements(file, start, end, _NOTHING)
                self._progress(end - start)

    def take_next(self) -> None:
        """Has the next block taken, whatever the ratio: the last one said nothing."""
        self._owed = 1.0

    def _takes(self) -> bool:
        takes = self._owed >= 1
        self._owed += self._ratio - takes
        return takes
