"""The base of all writers, and the encoder of the formats whose files can be joined byte by byte."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type
from penstock_filesystem.formats._options import WriteOptions

__all__ = ["BinaryOutput", "Encoder", "FormatWriter", "FramedEncoder", "estimated_size", "unsupported"]

_COMPRESSED_BLOCK = 1 << 20
_LEVELS = {"gzip": 6, "zstd": 1}  # gzip's own default; Arrow's is 9, two to three times as slow for up to 4 %
_ROWS_AT_ONCE = 32_768  # keeps rendered text below the 2 GiB of an Arrow string array, up to 64 KiB a row


class BinaryOutput(Protocol):
    """A binary file open for writing."""

    def write(self, data: Any, /) -> int:
        """Writes bytes or a buffer."""

    def tell(self) -> int:
        """Bytes written."""


def estimated_size(written: int, encoded_bytes: int, waiting_bytes: int) -> int:
    """Returns what a file of ``written`` bytes will have if what waits shrinks as what is encoded did, both by their
    Arrow memory.
    """
    ratio = min(1.0, written / encoded_bytes) if encoded_bytes else 1.0
    return written + int(waiting_bytes * ratio)


class Encoder(ABC):
    """Writes the rows of one file. ``header_size`` bytes at its start are the same in every file of the format."""

    header_size: int = 0

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Size of the file in bytes if it ended here: exact or estimated."""

    @property
    def size_is_guess(self) -> bool:
        """Whether :attr:`size` says little because nothing is encoded yet; :meth:`flush` makes it an estimate."""
        return False

    @property
    def buffered_bytes(self) -> int:
        """Memory held by rows that are not in the file yet."""
        return 0

    def flush(self) -> None:  # noqa: B027 - most encoders hold nothing back
        """Writes what :attr:`buffered_bytes` counts."""

    @abstractmethod
    def finish(self) -> None:
        """Completes the file; the output stays open."""


class FormatWriter(ABC):
    """Writes files of one format with rows of ``schema`` (the columns that go into the files). Pickled to the tasks."""

    name: ClassVar[str]
    codecs: ClassVar[dict[str, str]]  #: what the option ``compression`` may be → what it adds to the extension
    default_codec: ClassVar[str] = "none"

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        self.schema = schema
        self.codec = (options.compression or self.default_codec).lower()
        if self.codec in ("uncompressed", ""):
            self.codec = "none"
        if self.codec not in self.codecs:
            raise BadConfigurationError(
                f"option 'compression': {self.codec!r} does not go with format {self.name} "
                f"(it takes {', '.join(self.codecs)})"
            )

    @property
    def appends(self) -> bool:
        """Whether an open part may continue in the next batch: its pieces can be joined, or merged, to one file."""
        return True

    @property
    @abstractmethod
    def extension(self) -> str:
        """File extension with the dot and that of the codec: ``.csv.gz``."""

    @abstractmethod
    def validate(self) -> None:
        """Raises BadConfigurationError if the schema can't be written; names column, type and what to do."""

    @abstractmethod
    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """Creates an encoder of one file. All files of a query have the same ``salt``, no other query has it."""

    def settings(self) -> tuple[object, ...]:
        """Returns the options that make the bytes of files unfit to be joined if they differ."""
        return ()

    @property
    def fingerprint(self) -> str:
        """Stored with each chunk: files of the same fingerprint can be merged."""
        parts = (self.name, self.codec, str(self.schema), *self.settings())
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


class FramedEncoder(Encoder):
    """Encodes formats whose file is a header and then pieces that may follow each other in any order.

    With a codec, pieces are gathered to 1 MiB and each is compressed as a member (frame) of its own: joined members
    are a valid file, so files can still be joined byte by byte.
    """

    def __init__(self, out: BinaryOutput, header: bytes, codec: str) -> None:
        self._out = out
        self._codec = None if codec == "none" else pa.Codec(codec, compression_level=_LEVELS[codec])
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._header = header

    def start(self) -> None:
        """Writes the header."""
        if self._header:
            self._put(self._header)
            self.flush()
        self.header_size = self._out.tell()

    @abstractmethod
    def render(self, batch: pa.RecordBatch) -> Any:
        """Renders rows as bytes or a buffer."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Renders rows and puts them into the file."""
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            self._put(self.render(batch.slice(start, _ROWS_AT_ONCE)))

    def _put(self, data: Any) -> None:
        if self._codec is None:
            self._out.write(data)
            return
        self._pending.append(bytes(data))
        self._pending_bytes += len(self._pending[-1])
        if self._pending_bytes >= _COMPRESSED_BLOCK:
            self.flush()

    def flush(self) -> None:
        """Compresses what is gathered."""
        if self._codec is not None and self._pending:
            self._out.write(self._codec.compress(b"".join(self._pending), asbytes=True))
            self._pending, self._pending_bytes = [], 0

    @property
    def size(self) -> int:
        """Size so far; exact without a codec."""
        return self._out.tell() + self._pending_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes gathered to be compressed together."""
        return self._pending_bytes

    def finish(self) -> None:
        """Compresses the rest."""
        self.flush()


def unsupported(format_name: str, field: pa.Field, advice: str) -> BadConfigurationError:
    """Returns the error for a column that a format can't hold."""
    return BadConfigurationError(
        f"format {format_name} can't hold column '{field.name}' of type {shown_type(field.type)}: {advice}"
    )
