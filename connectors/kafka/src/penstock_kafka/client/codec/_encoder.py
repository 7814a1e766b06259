"""Rows to Kafka's record batches, by the compiled part."""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from penstock_kafka.client.codec._arrow import ArrowArray, ArrowSchema, release
from penstock_kafka.client.codec._library import library

__all__ = ["RECORDS_AT", "RecordEncoder", "Rows", "SealedBatch", "Stop", "Stopped", "halves", "stamp"]

#: Where the records begin: after the header of a batch.
RECORDS_AT = 61


class Stop(IntEnum):
    """Why encoding stopped, as in encoder.c."""

    DONE = 0
    BATCH_FULL = 1  #: take the batch of that partition
    ALL_FULL = 2  #: take any
    TOPIC_UNKNOWN = 3  #: say how many partitions it has
    TOPIC_REFUSED = 4
    PARTITION_UNKNOWN = 5
    RECORD_TOO_LARGE = 6
    NO_MEMORY = 7


class _Sealed(ct.Structure):
    """``struct sealed`` of encoder.c."""

    _fields_ = [
        ("data", ct.c_void_p),
        ("length", ct.c_int64),
        ("largest", ct.c_int64),
        ("topic", ct.c_int32),
        ("partition", ct.c_int32),
        ("records", ct.c_int32),
    ]


class Stopped(ct.Structure):
    """``struct stopped`` of encoder.c: the row, the bytes of its key and value, and where it was to go."""

    _fields_ = [("row", ct.c_int64), ("size", ct.c_int64), ("topic", ct.c_int32), ("partition", ct.c_int32)]

    row: int
    size: int
    topic: int
    partition: int


@dataclass(slots=True)
class SealedBatch:
    """A record batch, message format 2, to be stamped before it is sent. ``largest``: bytes of its largest record."""

    topic: str
    partition: int
    data: bytearray
    records: int
    largest: int


class Rows:
    """A record batch of DELIVERY_SCHEMA columns while it is being encoded. Close it."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.array, self.schema = ArrowArray(), ArrowSchema()
        batch._export_to_c(ct.addressof(self.array), ct.addressof(self.schema))

    def close(self) -> None:
        """Gives the columns back."""
        release(self.array)
        release(self.schema)


class RecordEncoder:
    """Open batches of one producer, one for each partition that has records waiting.

    One thread at a time. Memory: ``open_bytes`` of records, and as much again reserved. A batch has at most
    ``batch_bytes``, or one record; a record of more than ``record_bytes`` is not encoded.
    """

    def __init__(self, batch_bytes: int, record_bytes: int, open_bytes: int) -> None:
        self._library = library()
        self._open_bytes = open_bytes
        self._handle: int | None = self._library.penstock_encoder_open(batch_bytes, record_bytes, open_bytes)
        if not self._handle:
            raise MemoryError("no memory for an encoder")
        self._names: list[str] = []

    @property
    def _encoder(self) -> int:
        if self._handle is None:
            raise RuntimeError("the encoder is closed")
        return self._handle

    def name_of(self, topic: int) -> str:
        """Returns the topic of that number."""
        return self._names[topic]

    def set_topic(self, name: str, partitions: int) -> None:
        """Says how many partitions a topic has, for the first time or since there are more; 0: refuse its records."""
        encoded = name.encode()
        number = self._library.penstock_encoder_set_topic(self._encoder, encoded, len(encoded), partitions)
        if number < 0:
            raise MemoryError(f"no memory for the partitions of topic '{name}'")
        if number == len(self._names):
            self._names.append(name)

    def encode(self, rows: Rows, first: int, stopped: Stopped) -> Stop:
        """Encodes rows from ``first`` on, up to one that ``stopped`` then tells of."""
        return Stop(
            self._library.penstock_encoder_encode(
                self._encoder, ct.byref(rows.schema), ct.byref(rows.array), first, ct.byref(stopped)
            )
        )

    def take(self, topic: int = -1, partition: int = -1) -> SealedBatch | None:
        """Returns the open batch of a partition, or any; ``None`` if there is none."""
        sealed = _Sealed()
        if not self._library.penstock_encoder_take(self._encoder, topic, partition, ct.byref(sealed)):
            return None
        data = bytearray((ct.c_char * sealed.length).from_address(sealed.data))
        return SealedBatch(self.name_of(sealed.topic), sealed.partition, data, sealed.records, sealed.largest)

    def limit(self, batch_bytes: int) -> None:
        """Sets what batches may have from now on."""
        self._library.penstock_encoder_limit(self._encoder, batch_bytes)

    def trim(self) -> None:
        """Gives memory back that open batches had."""
        self._library.penstock_encoder_trim(self._encoder, self._open_bytes)

    @property
    def bytes(self) -> int:
        """Of all open batches."""
        count: int = self._library.penstock_encoder_bytes(self._encoder)
        return count

    def close(self) -> None:
        """Frees everything. Idempotent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.penstock_encoder_close(handle)


def halves(batch: SealedBatch) -> tuple[SealedBatch, SealedBatch]:
    """Returns the records of a batch, as it was taken, in two, to be stamped."""
    middle = batch.records // 2
    return _part(batch, 0, middle), _part(batch, middle, batch.records - middle)


def _part(batch: SealedBatch, first: int, count: int) -> SealedBatch:
    data, largest = bytearray(len(batch.data)), ct.c_int64()
    source, target = (ct.addressof(ct.c_char.from_buffer(one)) for one in (batch.data, data))
    length = library().penstock_batch_part(source, first, count, target, ct.byref(largest))
    return SealedBatch(batch.topic, batch.partition, data[:length], count, largest.value)


def stamp(data: bytearray, *, attributes: int, producer_id: int, epoch: int, sequence: int) -> None:
    """Writes into a batch who sends it (-1: no particular producer), how it is packed, and its checksum."""
    address = ct.addressof(ct.c_char.from_buffer(data))
    library().penstock_batch_stamp(address, len(data), attributes, producer_id, epoch, sequence)
