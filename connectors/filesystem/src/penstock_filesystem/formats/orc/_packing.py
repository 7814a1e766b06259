"""Runs of numbers, bytes and bits as a writer makes them: the counterpart of ``_integers`` and ``_decimals``.

Numbers are written in runs of 512: as steps of one size, or packed in the bits that the largest of a run needs.
Compression does the rest.

Source: ORC Specification v1, "Run Length Encoding" and "Decimal Columns".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock_filesystem.formats.orc._integers import Bits, Numbers
from penstock_filesystem.formats.orc._packed_runs import WIDTHS, Raw
from penstock_filesystem.formats.orc._protobuf import packed

__all__ = ["packed_bits", "packed_bytes", "packed_decimals", "packed_numbers"]

_RUN, _BYTE_RUN = 512, 128
_DIRECT, _DELTA = 1 << 6, 3 << 6
_ONE = np.uint64(1)
_WORD_BITS = 64
#: A number of 128 bits has as many bytes, of seven bits each.
_MOST_BYTES = 19


def packed_bits(bits: Bits) -> bytes:
    """Returns the stream of bits, the highest of each byte first."""
    return packed_bytes(np.packbits(bits))


def packed_bytes(values: npt.NDArray[np.uint8]) -> bytes:
    """Returns the stream of bytes, in runs of 128."""
    whole = len(values) // _BYTE_RUN * _BYTE_RUN
    runs = np.full((whole // _BYTE_RUN, 1 + _BYTE_RUN), 0x100 - _BYTE_RUN, np.uint8)
    runs[:, 1:] = values[:whole].reshape(-1, _BYTE_RUN)
    rest = values[whole:]
    return runs.tobytes() + (bytes([0x100 - len(rest)]) + rest.tobytes() if len(rest) else b"")


def packed_numbers(values: Numbers, *, signed: bool) -> bytes:
    """Returns the stream of whole numbers of up to 64 bits, in runs of version 2."""
    pieces = []
    for start in range(0, len(values), _RUN):
        run = values[start : start + _RUN]
        pieces.append(_steps(run, signed=signed) or _direct(run, signed=signed))
    return b"".join(pieces)


def packed_decimals(words: Raw) -> bytes:
    """Returns the stream of numbers of 128 bits: for each one the lower word, then the higher one."""
    low, high = words[:, 0], words[:, 1]
    # The lowest bit is the sign: of negative numbers every bit is the other one.
    flips = np.uint64(0) - (high >> np.uint64(_WORD_BITS - 1))
    low, high = (low << _ONE) ^ flips, (high << _ONE | low >> np.uint64(_WORD_BITS - 1)) ^ flips
    groups = np.empty((len(words), _MOST_BYTES), np.uint8)
    for place in range(_MOST_BYTES):
        groups[:, place] = low & np.uint64(0x7F)
        low, high = low >> np.uint64(7) | high << np.uint64(_WORD_BITS - 7), high >> np.uint64(7)
    sizes = np.maximum(_MOST_BYTES - (groups[:, ::-1] != 0).argmax(axis=1), 1)
    sizes[~groups.any(axis=1)] = 1
    places = np.arange(_MOST_BYTES)
    groups[places < sizes[:, None] - 1] |= 0x80
    found: bytes = groups[places < sizes[:, None]].tobytes()
    return found


def _steps(run: Numbers, *, signed: bool) -> bytes:
    """Returns a run of numbers that have one and the same difference; nothing if these are others."""
    first, size = int(run[0]), len(run)
    step = int(run[1]) - first if size > 1 else 0
    # In Python's numbers: a run that wraps around has no steps.
    if size < 3 or int(run[-1]) - first != step * (size - 1) or not (np.diff(run) == step).all():
        return b""
    return _head(_DELTA, 0, size) + packed([_zigzag(first) if signed else first, _zigzag(step)])


def _direct(run: Numbers, *, signed: bool) -> bytes:
    raw: Raw = run.view(np.uint64)
    if signed:
        raw = raw << _ONE ^ (run >> 63).view(np.uint64)
    bits = max(int(raw.max()).bit_length(), 1)
    code = next(code for code, width in enumerate(WIDTHS) if width >= bits)
    width = WIDTHS[code]
    data = raw.astype(">u8").view(np.uint8).reshape(-1, 8)
    if width % 8 == 0:
        return _head(_DIRECT, code, len(run)) + data[:, 8 - width // 8 :].tobytes()
    unpacked = np.unpackbits(data, axis=1)[:, _WORD_BITS - width :]
    return _head(_DIRECT, code, len(run)) + np.packbits(unpacked).tobytes()


def _head(kind: int, code: int, size: int) -> bytes:
    return bytes([kind | code << 1 | (size - 1) >> 8, (size - 1) & 0xFF])


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else -value * 2 - 1
