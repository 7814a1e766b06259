"""Runs of numbers, bytes and bits, as the streams of an ORC file hold them.

Every function returns exactly ``count`` values, and raises ValueError for a stream that is damaged or cut off.

Source: ORC Specification v1, "Run Length Encoding".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock_filesystem.formats.orc._packed_runs import Raw, unpacked
from penstock_filesystem.formats.orc._protobuf import varint

__all__ = ["Bits", "Numbers", "bits", "numbers", "signed_bytes"]

Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]
_ALL_BITS = (1 << 64) - 1


def numbers(data: bytes, count: int, *, signed: bool, version: int) -> Numbers:
    """Returns whole numbers. ``version`` 1 are the runs that writers made before Hive 0.12, 2 those of today.

    Unsigned numbers above 2**63 become negative.
    """
    if version == 1:
        found: Raw = _gathered(_Runs(data, signed=signed).of_version_1, count, np.uint64)
    else:
        found = unpacked(data, count, signed=signed)
    return found.view(np.int64)


def signed_bytes(data: bytes, count: int) -> npt.NDArray[np.int8]:
    """Returns bytes as numbers from -128 to 127."""
    found: npt.NDArray[np.int8] = _gathered(_Runs(data, signed=False).of_bytes, count, np.uint8).view(np.int8)
    return found


def bits(data: bytes, count: int) -> Bits:
    """Returns bits, the highest of each byte first."""
    packed = _gathered(_Runs(data, signed=False).of_bytes, (count + 7) // 8, np.uint8)
    return np.unpackbits(packed, count=count).view(np.bool_)


def _gathered(next_run: Any, count: int, type_: Any) -> Any:
    runs: list[Any] = []
    found = 0
    while found < count:
        run = next_run()
        runs.append(run)
        found += len(run)
    return np.concatenate(runs)[:count] if runs else np.empty(0, type_)


class _Runs:
    """Reads run by run, from ``_at`` on."""

    def __init__(self, data: bytes, *, signed: bool) -> None:
        self._data = data
        self._at = 0
        self._signed = signed

    def of_bytes(self) -> npt.NDArray[np.uint8]:
        control = self._byte()
        if control < 0x80:
            return np.full(control + 3, self._byte(), np.uint8)
        return np.frombuffer(self._take(0x100 - control), np.uint8)

    def of_version_1(self) -> Raw:
        control = self._byte()
        if control >= 0x80:
            # Number by number: each has a length of its own, and files of that age are rare.
            values = [self._varint() for _ in range(0x100 - control)]
            return np.array([value & _ALL_BITS for value in values], np.uint64)
        delta = self._byte()
        delta -= (delta & 0x80) << 1
        first = self._varint() & _ALL_BITS
        return np.arange(control + 3, dtype=np.uint64) * np.uint64(delta & _ALL_BITS) + np.uint64(first)

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise ValueError("a stream is cut off")
        self._at += size
        return data

    def _varint(self) -> int:
        value, self._at = varint(self._data, self._at)
        return self._plain(value)

    def _plain(self, value: int) -> int:
        return value >> 1 ^ -(value & 1) if self._signed else value
