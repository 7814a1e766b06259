"""Kafka's record batches to rows, by the compiled part."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from penstock_kafka.client._interfaces import HEADERS_TYPE, RECORD_SCHEMA
from penstock_kafka.client.codec._arrow import ArrowArray
from penstock_kafka.client.codec._library import library

__all__ = ["Aborted", "Decoded", "Scan", "decode", "scan"]

_SCHEMA_WITHOUT_HEADERS = RECORD_SCHEMA.remove(RECORD_SCHEMA.get_field_index("headers"))


class Scan(IntEnum):
    """What a look at fetched bytes says, as in decoder.c."""

    PLAIN = 0
    PACKED = 1  #: some batches are compressed
    CORRUPT = 2
    OLD_FORMAT = 3  #: of message format 0 or 1
    NO_MEMORY = 4


Bytes = bytes | bytearray | memoryview


def _address(data: Bytes) -> int:
    address: int = pa.py_buffer(data).address
    return address


class _Scanned(ct.Structure):
    """``struct scanned`` of decoder.c."""

    _fields_ = [("bytes", ct.c_int64), ("next", ct.c_int64)]


class _Decoding(ct.Structure):
    """``struct decoding`` of decoder.c."""

    _fields_ = [
        ("data", ct.c_void_p),
        ("length", ct.c_int64),
        ("aborted_producers", ct.POINTER(ct.c_int64)),
        ("aborted_firsts", ct.POINTER(ct.c_int64)),
        ("aborted_count", ct.c_int32),
        ("with_headers", ct.c_int32),
        ("end", ct.c_int64),
        ("max_bytes", ct.c_int64),
        ("max_rows", ct.c_int32),
        ("more", ct.c_int32),
        ("next", ct.c_int64),
    ]


class Aborted:
    """Aborted transactions of a fetch: pairs of producer id and first offset."""

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        ordered = sorted(transactions, key=lambda one: one[1])
        self.count = len(ordered)
        numbers = ct.c_int64 * max(1, self.count)
        self.producers = numbers(*(producer for producer, _ in ordered))
        self.firsts = numbers(*(first for _, first in ordered))


@dataclass(frozen=True)
class Decoded:
    """Some records (``None`` for none), the next offset, and whether the data has more of the range."""

    records: pa.RecordBatch | None
    next: int
    more: bool


def scan(data: Bytes) -> tuple[Scan, int, int]:
    """Checks the whole batches in ``data``: their bytes together, and the offset after them (-1 for none)."""
    scanned = _Scanned()
    status = Scan(library().penstock_scan(_address(data), len(data), ct.byref(scanned)))
    return status, scanned.bytes, scanned.next


def _with_texts(records: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the records with U+FFFD for what is not UTF-8 in the keys of headers, as Java's client reads them."""
    column = records.column("headers")
    keys, values = column.values.flatten()
    try:
        keys.view(pa.binary()).cast(pa.string())
        return records
    except pa.ArrowInvalid:
        texts = [key.decode("utf-8", "replace") for key in keys.view(pa.binary()).to_pylist()]
    items = pa.StructArray.from_arrays([pa.array(texts, pa.string()), values], fields=list(HEADERS_TYPE.value_type))
    column = pa.ListArray.from_arrays(column.offsets, items, type=HEADERS_TYPE, mask=column.is_null())
    return records.set_column(records.schema.get_field_index("headers"), RECORD_SCHEMA.field("headers"), column)


def decode(
    data: Bytes, aborted: Aborted, start: int, end: int, *, headers: bool, max_rows: int, max_bytes: int
) -> Decoded:
    """Records of ``data`` (whole, unpacked batches), offsets ``start`` up to ``end``.

    Raises ValueError for batches that are not what they should be.
    """
    decoding = _Decoding(
        _address(data),
        len(data),
        aborted.producers,
        aborted.firsts,
        aborted.count,
        headers,
        end,
        max_bytes,
        max_rows,
        0,
        start,
    )
    array = ArrowArray()
    status = Scan(library().penstock_decode(ct.byref(decoding), ct.byref(array)))
    records = None
    if array.release:
        # Moves the ownership: the memory is freed with the batch's last buffer.
        schema = RECORD_SCHEMA if headers else _SCHEMA_WITHOUT_HEADERS
        records = pa.RecordBatch._import_from_c(ct.addressof(array), schema)
        if headers:
            records = _with_texts(records)
    if status is Scan.NO_MEMORY:
        raise MemoryError("no memory for a batch of records")
    if status is not Scan.PLAIN:
        raise ValueError("a record batch is not what its header says")
    return Decoded(records, decoding.next, bool(decoding.more))
