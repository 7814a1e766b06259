"""The two loops that NumPy can't do: compiled C if it is there, Python otherwise. Callers don't see which."""

from __future__ import annotations

import ctypes as ct
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import BadDataError
from penstock.native import NativeLibrary

__all__ = ["native_problem", "tokens_of", "walk"]

Int64s = npt.NDArray[np.int64]


_LIBRARY = NativeLibrary(
    Path(__file__).parent,
    {
        "penstock_walk": (ct.c_int64, [ct.c_void_p, ct.c_int64, *([ct.c_void_p] * 5)]),
        "penstock_tokens": (None, [ct.c_void_p, ct.c_int64, ct.c_void_p, ct.c_void_p]),
    },
    without="penstock-cassandra takes pages apart and hashes keys in Python, more slowly",
)


def native_problem() -> str:
    """Returns why the compiled part can't be used, in words for the user; empty if it can."""
    return _LIBRARY.problem


def walk(body: pa.Buffer, first: Int64s, last: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Returns where the cells of some regions of ``body`` begin, and their lengths (-1: null).

    Region ``i`` goes from ``first[i]`` to below ``last[i]`` and holds ``counts[i]`` cells; what is missing at its end
    is null. Raises BadDataError for a region that is damaged.
    """
    if len(counts) and int(counts.min()) < 0:
        raise BadDataError("a page of a result can't be understood: a negative number of cells")
    cells = int(counts.sum())
    starts, lengths = np.empty(cells, np.int64), np.empty(cells, np.int64)
    if not _LIBRARY.usable():
        bad = _walk_in_python(body, first, last, counts, starts, lengths)
    else:
        first, last, counts = (np.ascontiguousarray(numbers, np.int64) for numbers in (first, last, counts))
        arrays = (first, last, counts, starts, lengths)
        bad = _LIBRARY.functions.penstock_walk(body.address, len(first), *(array.ctypes.data for array in arrays))
    if bad >= 0:
        raise BadDataError("a page of a result can't be understood: a cell is longer than what is left of the page")
    return starts, lengths


def _walk_in_python(
    body: pa.Buffer, first: Int64s, last: Int64s, counts: Int64s, starts: Int64s, lengths: Int64s
) -> int:
    view = memoryview(body)
    read = struct.Struct(">i").unpack_from
    found_starts: list[int] = []
    found_lengths: list[int] = []
    # A loop per cell: where one begins is known only from the length of the previous one.
    for region, (at, end, count) in enumerate(zip(first.tolist(), last.tolist(), counts.tolist(), strict=True)):
        for _ in range(count):
            length = -1
            if at < end:
                if end - at < 4:
                    return region
                length = read(view, at)[0]
                at += 4
                if length > end - at:
                    return region
            found_starts.append(at)
            found_lengths.append(length if length > -1 else -1)
            if length > 0:
                at += length
    starts[:], lengths[:] = found_starts, found_lengths
    return -1


def tokens_of(keys: pa.BinaryArray) -> Int64s:
    """Returns the Murmur3 token of each partition key, serialized as Cassandra does; none is null."""
    tokens = np.empty(len(keys), np.int64)
    if not _LIBRARY.usable():
        from penstock_cassandra.client import murmur3  # which loads the driver

        # A loop per key, over compiled code of the driver: without the compiled part there is no vectorized hash.
        tokens[:] = [murmur3(key.as_py()) for key in keys]
        tokens[tokens == np.iinfo(np.int64).min] = np.iinfo(np.int64).max
        return tokens
    _, offsets, data = keys.buffers()
    address = 0 if data is None else data.address
    _LIBRARY.functions.penstock_tokens(address, len(keys), offsets.address + 4 * keys.offset, tokens.ctypes.data)
    return tokens
