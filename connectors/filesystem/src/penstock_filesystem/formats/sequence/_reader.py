"""Reads Hadoop's SequenceFile: see ``_layout``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock_filesystem.formats._batch_decoder import BatchDecoder, NumberedBatch
from penstock_filesystem.formats._inference import FileSchemas, SchemaInference
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._reader_base import Decoder, FormatReader
from penstock_filesystem.formats.sequence._layout import CODEC_CLASSES, MAGIC, SYNC_BYTES, Codec

__all__ = ["SequenceReader"]

_READ_BYTES = 4 << 20
_BATCH_ROWS, _BATCH_BYTES = 32_768, 4 << 20
#: Of the header's texts: class names, and metadata.
_MOST_TEXT_BYTES = 1 << 20
_MOST_NOTES = 10_000
#: Records of a block: Hadoop ends one at a megabyte. Compressed, a few bytes may stand for billions of empty ones.
_MOST_IN_BLOCK = 1 << 22
_COLUMNS = ("key", "value")


class _Header(NamedTuple):
    classes: tuple[str, str]
    codec: Codec | None
    in_blocks: bool
    sync: bytes


class SequenceReader(FormatReader):
    """Reads a file as one range, as the columns ``key`` and ``value``. Memory: a few MiB, or the largest record or
    block.
    """

    def is_splittable(self, path: str) -> bool:
        """Always returns False: rows are numbered from the file's beginning."""
        return False

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for any other column."""
        for field in schema:
            if field.name not in _COLUMNS:
                raise BadConfigurationError(
                    f"format sequencefile has no column '{field.name}': it has key and value; correct the schema"
                )

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[NumberedBatch]:
        """Yields batches of some thousand records."""
        with file.raw() as stream:
            source = _Source(stream.read, file.size)
            header = _read_header(source)
            row = 0
            for keys, values in _gathered(_pairs(source, header)):
                columns = dict(zip(_COLUMNS, zip(header.classes, (keys, values), strict=True), strict=True))
                arrays = {name: _array(*columns[name]) for name in schema.names if name in columns}
                yield NumberedBatch(row, _batch(arrays, len(keys)))
                row += len(keys)

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder that casts the columns."""
        return BatchDecoder(schema, self.options, metrics, offsets=offsets)

    def inference(self, progress: Callable[[int], object]) -> SchemaInference:
        """Translates the classes of the first file."""
        return FileSchemas(_schema_of, progress, merge=False)


def _schema_of(file: InputFile) -> pa.Schema:
    with file.raw() as stream:
        classes = _read_header(_Source(stream.read, file.size)).classes
    types = [_WRITABLES.get(_short(one), _RAW)[0] for one in classes]
    return pa.schema(list(zip(_COLUMNS, types, strict=True)))


class _Source:
    """The bytes of a file in order. Raises EOFError where it ends too early."""

    def __init__(self, read: Callable[[int], Any], size: int) -> None:
        self._read = read
        self._size = size
        self._data = b""
        self._at = 0

    def is_at_end(self) -> bool:
        if self._at == len(self._data):
            self._data, self._at = bytes(self._read(_READ_BYTES)), 0
        return not self._data

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0:
            raise ValueError(f"it is damaged: a length of {count}")
        if end > len(self._data):
            if count > self._size:
                raise EOFError(f"it ends inside of a record of {count} bytes")
            rest = self._data[self._at :]
            more = bytes(self._read(max(count - len(rest), _READ_BYTES)))
            self._data, self._at, end = rest + more, 0, count
            if count > len(self._data):
                raise EOFError(f"it ends inside of a record of {count} bytes")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def integer(self) -> int:
        (value,) = struct.unpack(">i", self.take(4))
        return int(value)

    def variable(self) -> int:
        first = self.take(1)
        return _variable(first + self.take(_more_bytes(first[0])), 0)[0]

    def text(self) -> str:
        size = self.variable()
        if not 0 <= size <= _MOST_TEXT_BYTES:
            raise ValueError(f"it is damaged: a text of {size} bytes in its head")
        return self.take(size).decode()


def _more_bytes(first: int) -> int:
    """Returns how many bytes of a variable-length integer follow its first."""
    if first < 128 or first >= 144:  # -112 to 127
        return 0
    return 144 - first if first >= 136 else 136 - first


def _variable(data: bytes, at: int) -> tuple[int, int]:
    """Decodes a variable-length integer. Returns it with the position behind it."""
    first = data[at] if at < len(data) else 0
    end = at + 1 + _more_bytes(first)
    if end > len(data):
        raise EOFError("it ends inside of a number")
    if end == at + 1:
        return (first if first < 128 else first - 256), end
    value = int.from_bytes(data[at + 1 : end], "big")
    return (value if first >= 136 else ~value), end


def _read_header(source: _Source) -> _Header:
    magic = source.take(len(MAGIC))
    if magic[:3] != MAGIC[:3]:
        raise ValueError("it does not begin as a sequence file does")
    if magic != MAGIC:
        raise ValueError(f"it is a sequence file of version {magic[3]}; version 6 is read")
    classes = (source.text(), source.text())
    is_compressed, in_blocks = source.take(1) != b"\0", source.take(1) != b"\0"
    codec = None
    if is_compressed:
        name = source.text()
        codec = CODEC_CLASSES.get(name)
        if codec is None:
            raise ValueError(f"its codec {name} is not known; there are {', '.join(sorted(CODEC_CLASSES))}")
    notes = source.integer()
    if not 0 <= notes <= _MOST_NOTES:
        raise ValueError(f"it is damaged: {notes} entries of metadata")
    for _ in range(2 * notes):
        source.text()
    return _Header(classes, codec, in_blocks and is_compressed, source.take(SYNC_BYTES))


# A loop over rows: each record carries its own lengths.


def _pairs(source: _Source, header: _Header) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values, each as its class has written it."""
    while not source.is_at_end():
        length = source.integer()
        if length == -1:
            if source.take(SYNC_BYTES) != header.sync:
                raise ValueError("it is damaged: a sync marker is not the file's")
            if header.in_blocks:
                yield from _block(source, header)
            continue
        key_length = source.integer()
        if header.in_blocks or not 0 <= key_length <= length:
            raise ValueError(f"it is damaged: a record of {length} bytes, {key_length} of them its key's")
        body = source.take(length)
        value = body[key_length:]
        yield body[:key_length], value if header.codec is None else _plain(header.codec, value)


def _plain(codec: Codec, data: bytes) -> bytes:
    try:
        return codec.decompress(data)
    except (OSError, zlib.error) as error:  # of bytes that are in memory: they are damaged
        raise ValueError(f"what it has compressed is damaged: {error}") from error


def _block(source: _Source, header: _Header) -> Iterator[tuple[bytes, bytes]]:
    assert header.codec is not None
    count = source.variable()
    parts = [_plain(header.codec, source.take(source.variable())) for _ in range(4)]
    keys = _cut(parts[1], _lengths(parts[0], count))
    values = _cut(parts[3], _lengths(parts[2], count))
    yield from zip(keys, values, strict=True)


def _lengths(data: bytes, count: int) -> list[int]:
    if count > _MOST_IN_BLOCK:
        raise ValueError(f"a block has {count} records, and {_MOST_IN_BLOCK} are read")
    if not 0 <= count <= len(data):
        raise ValueError(f"it is damaged: {count} lengths in {len(data)} bytes")
    found, at = [], 0
    for _ in range(count):
        length, at = _variable(data, at)
        found.append(length)
    if at != len(data):
        raise ValueError(f"it is damaged: {len(data) - at} bytes follow the lengths of a block")
    return found


def _cut(data: bytes, lengths: list[int]) -> list[bytes]:
    if min(lengths, default=0) < 0 or sum(lengths) != len(data):
        raise ValueError(f"it is damaged: a block of {len(data)} bytes has lengths that do not fit")
    pieces, at = [], 0
    for length in lengths:
        pieces.append(data[at : at + length])
        at += length
    return pieces


def _gathered(pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[list[bytes], list[bytes]]]:
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for key, value in pairs:
        keys.append(key)
        values.append(value)
        size += len(key) + len(value)
        if len(keys) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield keys, values
            keys, values, size = [], [], 0
    if keys:
        yield keys, values


# What the classes write.


def _after_length(one: bytes) -> bytes:
    length, at = _variable(one, 0)
    if length != len(one) - at:
        raise ValueError(f"it is damaged: a text of {len(one) - at} bytes says that it has {length}")
    return one[at:]


def _after_int(one: bytes) -> bytes:
    if len(one) < 4 or struct.unpack_from(">i", one)[0] != len(one) - 4:
        raise ValueError(f"it is damaged: {len(one)} bytes of a BytesWritable do not fit its length")
    return one[4:]


def _numbers(letter: str) -> Callable[[list[bytes]], list[Any]]:
    size = struct.calcsize(letter)

    def decode(every: list[bytes]) -> list[Any]:
        joined = b"".join(every)
        if any(len(one) != size for one in every):
            raise ValueError(f"it is damaged: a number does not have {size} bytes")
        return list(struct.unpack(f">{len(every)}{letter}", joined))

    return decode


def _variable_numbers(every: list[bytes]) -> list[int]:
    decoded = [_variable(one, 0) for one in every]
    if any(end != len(one) for (_, end), one in zip(decoded, every, strict=True)):
        raise ValueError("it is damaged: a number does not end where its record does")
    return [value for value, _ in decoded]


def _texts(every: list[bytes]) -> pa.Array:
    return pa.array([_after_length(one) for one in every], pa.binary()).cast(pa.string())


_RAW: tuple[pa.DataType, Callable[[list[bytes]], Any]] = (pa.binary(), list)
#: By the class in ``org.apache.hadoop.io``: the column's type, and its values. Others stay as they were written.
_WRITABLES: dict[str, tuple[pa.DataType, Callable[[list[bytes]], Any]]] = {
    "Text": (pa.string(), _texts),
    "BytesWritable": (pa.binary(), lambda every: [_after_int(one) for one in every]),
    "BooleanWritable": (pa.bool_(), _numbers("?")),
    "ByteWritable": (pa.int8(), _numbers("b")),
    "ShortWritable": (pa.int16(), _numbers("h")),
    "IntWritable": (pa.int32(), _numbers("i")),
    "VIntWritable": (pa.int32(), _variable_numbers),
    "LongWritable": (pa.int64(), _numbers("q")),
    "VLongWritable": (pa.int64(), _variable_numbers),
    "FloatWritable": (pa.float32(), _numbers("f")),
    "DoubleWritable": (pa.float64(), _numbers("d")),
    "NullWritable": (pa.string(), lambda every: [None] * len(every)),
}


def _short(class_name: str) -> str:
    package, _, name = class_name.rpartition(".")
    return name if package == "org.apache.hadoop.io" else ""


def _batch(arrays: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_pydict(arrays)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def _array(class_name: str, every: list[bytes]) -> pa.Array:
    type_, decode = _WRITABLES.get(_short(class_name), _RAW)
    decoded = decode(every)
    return decoded if isinstance(decoded, pa.Array) else pa.array(decoded, type_)
