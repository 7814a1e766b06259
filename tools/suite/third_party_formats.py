"""File formats as another package would bring them: one whose files can be continued, and one whose can't."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet, OptionValues
from penstock_filesystem import FileEncoder, FileFormat, FileReader, FileWriter

__all__ = ["ArrowFormat", "FixedWidth"]

_LINES = 1000


class FixedWidth(FileFormat):
    """Lines of cells of so many characters each. Cells are text, or become what the schema says."""

    options: ClassVar[OptionSet] = OptionSet(
        (
            Option("width", "Characters of a cell", kind="int", required=True, minimum=1),
            Option("columns", "Names of the columns, by commas, for a schema that is inferred"),
        )
    )

    def create_reader(self, options: OptionValues) -> FileReader:
        """Reads lines."""
        return _Lines(options["width"], tuple((options["columns"] or "").split(",")))

    def create_writer(self, options: OptionValues, schema: pa.Schema) -> FileWriter:
        """Writes lines."""
        for field in schema:
            if pa.types.is_floating(field.type):
                raise BadConfigurationError(f"column '{field.name}': fixed width takes no fractions; cast it to string")
        return _LineWriter(options["width"])


class _Lines(FileReader):
    takes_stream = True

    def __init__(self, width: int, columns: tuple[str, ...]) -> None:
        self._width = width
        self._columns = columns

    def read(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields a thousand lines at a time. With ``columns`` they are the file's, else those of the schema are."""
        names = self._columns if self._columns != ("",) else schema.names
        lines = io.BytesIO(file.read()).read().decode().splitlines()
        for start in range(0, len(lines), _LINES):
            some = lines[start : start + _LINES]
            cells = [
                [line[at * self._width : (at + 1) * self._width].rstrip() for line in some] for at in range(len(names))
            ]
            if any(len(line) != self._width * len(names) for line in some):
                raise ValueError(f"a line has not {len(names)} cells of {self._width} characters")
            yield pa.RecordBatch.from_arrays([pa.array(one) for one in cells], names=list(names))

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        """Strings."""
        if self._columns == ("",):
            return super().infer_schema(file)
        return pa.schema([(name, pa.string()) for name in self._columns])


class _LineWriter(FileWriter):
    extension = ".txt"
    appends = True

    def __init__(self, width: int) -> None:
        self._width = width

    def encoder(self, file: BinaryIO) -> FileEncoder:
        """Begins a file, which has no header."""
        return _LineEncoder(file, self._width)


class _LineEncoder(FileEncoder):
    def __init__(self, file: BinaryIO, width: int) -> None:
        self._file = file
        self._width = width

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes lines."""
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        self._file.write("".join("".join(f"{cell:<{self._width}}" for cell in row) + "\n" for row in rows).encode())

    def finish(self) -> None:
        """Has nothing to do."""


class ArrowFormat(FileFormat):
    """Arrow's own files."""

    def create_reader(self, options: OptionValues) -> FileReader:
        """Reads batches."""
        return _ArrowReader()

    def create_writer(self, options: OptionValues, schema: pa.Schema) -> FileWriter:
        """Writes batches."""
        return _ArrowWriter(schema)


class _ArrowReader(FileReader):
    def read(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the batches as they were written."""
        opened = pa.ipc.open_file(file)
        for number in range(opened.num_record_batches):
            yield opened.get_batch(number)

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        """Returns that of the file."""
        return pa.ipc.open_file(file).schema


class _ArrowWriter(FileWriter):
    extension = ".arrow"

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def encoder(self, file: BinaryIO) -> FileEncoder:
        """Begins a file."""
        return _ArrowEncoder(file, self._schema)


class _ArrowEncoder(FileEncoder):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._sink = pa.PythonFile(file, mode="w")
        self._writer = pa.ipc.new_file(self._sink, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds a batch."""
        self._writer.write(batch)

    def finish(self) -> None:
        """Writes the footer."""
        self._writer.close()
