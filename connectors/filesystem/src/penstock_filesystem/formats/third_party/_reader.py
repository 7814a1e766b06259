"""A third-party format as a reader."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock_filesystem.formats._batch_decoder import BatchReader, NumberedBatch
from penstock_filesystem.formats._compression import BUFFER_BYTES
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats.third_party._find import load_format

__all__ = ["ThirdPartyReader"]


class _Stream(io.RawIOBase):
    """A stream of ours as Python's."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


class ThirdPartyReader(BatchReader):
    """Reads each file as a whole."""

    holds_schema = True

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._reader, _ = load_format(options.name, options.format_options, lambda f, values: f.create_reader(values))

    def is_splittable(self, path: str) -> bool:
        """Always returns False."""
        return False

    def _open(self, file: InputFile) -> Any:
        if self._reader.takes_stream:
            return io.BufferedReader(_Stream(file.stream()), BUFFER_BYTES)
        return file.buffered()

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[NumberedBatch]:
        """Yields batches as the format reads them, each with the number of its first row."""
        row = 0
        if self.options.rescue_column in schema.names:
            schema = self._schema_of(file)  # every column, as it is
        with self._open(file) as opened:
            for batch in self._reader.read(opened, schema):
                yield NumberedBatch(row, batch)
                row += batch.num_rows

    def _schema_of(self, file: InputFile) -> pa.Schema:
        with self._open(file) as opened:
            return self._reader.infer_schema(opened)
