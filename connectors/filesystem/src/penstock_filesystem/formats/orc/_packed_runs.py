"""Runs of numbers as writers make them since Hive 0.12: repeated, packed in bits, patched, or as differences.

Many runs have three to ten numbers only, those of the lengths of texts for example. So one look at each header finds
where the runs begin, and NumPy unpacks all runs of a kind together.

Source: ORC Specification v1, "Integer Run Length Encoding, version 2".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock_filesystem.formats.orc._protobuf import varint

__all__ = ["WIDTHS", "Raw", "unpacked"]

Raw = npt.NDArray[np.uint64]
_Indexes = npt.NDArray[np.int64]
_SHORT_REPEAT, _DIRECT, _PATCHED_BASE, _DELTA = range(4)
#: How many bits a value has, by the code in a run's header.
WIDTHS: tuple[int, ...] = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_WIDTH_OF = np.array(WIDTHS, np.int64)
#: How many bits an entry of a list of patches has, by the bits that it needs.
_FITTING: tuple[int, ...] = tuple(next((width for width in WIDTHS if width >= bits), 64) for bits in range(73))
_FITTING_OF = np.array(_FITTING, np.int64)
_ALL_BITS = (1 << 64) - 1
_ONE, _WORD_BITS = np.uint64(1), 64
#: So many numbers are unpacked together: enough to be fast, and few enough for the processor's cache.
_AT_ONCE = 16_384
#: Bytes behind the stream, so that a word of 64 bits and one more byte begin at each byte of it.
_PADDING = bytes(9)


def unpacked(data: bytes, count: int, *, signed: bool) -> Raw:
    """Returns ``count`` numbers. Raises ValueError for a stream that is damaged or cut off."""
    stream = _Stream(data)
    parts: list[Raw] = []
    found = at = 0
    while found < count:
        runs, at = _found_runs(data, at, min(_AT_ONCE, count - found), signed=signed)
        parts.append(_numbers(stream, runs, signed=signed))
        found += len(parts[-1])
    return np.concatenate(parts)[:count] if parts else np.empty(0, np.uint64)


@dataclass
class _Runs:
    """Where each run begins, and how many numbers it has.

    Of those that hold differences: where the packed ones begin, the first number, and the first difference.
    """

    starts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    packed: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)


def _found_runs(data: bytes, at: int, count: int, *, signed: bool) -> tuple[_Runs, int]:
    """Returns the runs of the ``count`` numbers from byte ``at`` on, and where the last one ends."""
    runs = _Runs()
    add_start, add_size = runs.starts.append, runs.sizes.append
    found = 0
    try:
        while found < count:
            head = data[at]
            kind = head >> 6
            add_start(at)
            if kind == _SHORT_REPEAT:
                size = (head & 7) + 3
                at += (head >> 3 & 7) + 2
            else:
                size = ((head & 1) << 8 | data[at + 1]) + 1
                code = head >> 1 & 0x1F
                if kind == _DIRECT:
                    at += 2 + (size * WIDTHS[code] + 7) // 8
                elif kind == _PATCHED_BASE:
                    at = _end_of_patched(data, at, size * WIDTHS[code])
                else:
                    at = _add_delta(runs, data, at + 2, signed=signed)
                    at += ((size - 2) * WIDTHS[code] + 7) // 8 if code and size > 2 else 0
            add_size(size)
            found += size
    except IndexError:
        at = len(data) + 1
    if at > len(data):
        raise ValueError("a stream is cut off")
    return runs, at


def _end_of_patched(data: bytes, at: int, bits: int) -> int:
    third, fourth = data[at + 2], data[at + 3]
    entry_bits = _FITTING[WIDTHS[third & 0x1F] + (fourth >> 5) + 1]
    return at + 4 + (third >> 5) + 1 + (bits + 7) // 8 + ((fourth & 0x1F) * entry_bits + 7) // 8


def _add_delta(runs: _Runs, data: bytes, at: int, *, signed: bool) -> int:
    first, at = varint(data, at)
    step, at = varint(data, at)
    runs.packed.append(at)
    runs.firsts.append((first >> 1 ^ -(first & 1) if signed else first) & _ALL_BITS)
    runs.steps.append((step >> 1 ^ -(step & 1)) & _ALL_BITS)
    return at


class _Stream:
    """The bytes of a stream, and the word of 64 bits that begins at each of them."""

    def __init__(self, data: bytes) -> None:
        padded = data + _PADDING
        self.bytes = np.frombuffer(padded, np.uint8)
        self._words: npt.NDArray[np.uint64] = np.ndarray((len(data) + 1,), ">u8", padded, strides=(1,))

    def packed(self, starts: _Indexes, sizes: _Indexes, widths: _Indexes) -> Raw:
        """Returns the numbers that are packed from the bytes ``starts`` on, the highest bit first.

        For each run of ``sizes`` numbers there are as many of ``widths`` bits each, from 1 to 64.
        """
        width = np.repeat(widths, sizes)
        bit = _places(sizes) * width + np.repeat(starts * 8, sizes)
        byte, used = bit >> 3, (bit & 7).astype(np.uint64)
        found: Raw = self._words[byte].astype(np.uint64) << used
        if len(widths) and int(widths.max()) > _WORD_BITS - 7:
            found |= self.bytes[byte + 8].astype(np.uint64) >> (np.uint64(8) - used)
        found >>= np.uint64(_WORD_BITS) - width.astype(np.uint64)
        return found


def _numbers(stream: _Stream, runs: _Runs, *, signed: bool) -> Raw:
    starts, sizes = np.array(runs.starts, np.int64), np.array(runs.sizes, np.int64)
    kinds = stream.bytes[starts] >> 6
    found = np.empty(int(sizes.sum()), np.uint64)
    for kind in np.unique(kinds).tolist():
        is_so = kinds == kind
        of_kind = starts[is_so], sizes[is_so]
        if kind == _SHORT_REPEAT:
            values = _repeated(stream, *of_kind, signed=signed)
        elif kind == _DIRECT:
            values = _direct(stream, *of_kind, signed=signed)
        elif kind == _PATCHED_BASE:
            values = _patched(stream, *of_kind)
        else:
            values = _sums(stream, *of_kind, runs)
        found[np.repeat(is_so, sizes)] = values
    return found


def _repeated(stream: _Stream, starts: _Indexes, sizes: _Indexes, *, signed: bool) -> Raw:
    widths = ((stream.bytes[starts] >> 3 & 7).astype(np.int64) + 1) * 8
    values = stream.packed(starts + 1, np.ones(len(starts), np.int64), widths)
    return np.repeat(_plain(values) if signed else values, sizes)


def _direct(stream: _Stream, starts: _Indexes, sizes: _Indexes, *, signed: bool) -> Raw:
    values = stream.packed(starts + 2, sizes, _widths(stream, starts))
    return _plain(values) if signed else values


def _patched(stream: _Stream, starts: _Indexes, sizes: _Indexes) -> Raw:
    """Returns numbers above a base, of which a list of patches holds the highest bits of some."""
    widths, ones = _widths(stream, starts), np.ones(len(starts), np.int64)
    third, fourth = (stream.bytes[starts + place].astype(np.int64) for place in (2, 3))
    base_bits, patch_bits, patches = ((third >> 5) + 1) * 8, _WIDTH_OF[third & 0x1F], fourth & 0x1F
    values_at = starts + 4 + base_bits // 8
    values = stream.packed(values_at, sizes, widths)
    entry_bits = _FITTING_OF[patch_bits + (fourth >> 5) + 1]
    entries = stream.packed(values_at + (sizes * widths + 7) // 8, patches, entry_bits)
    # An entry says how many numbers to skip, and what more bits the next one has.
    # Shifted in two steps, because a shift by 64 bits is not defined.
    bits = np.repeat(patch_bits, patches).astype(np.uint64)
    places = _running_sums((entries >> _ONE >> (bits - _ONE)), patches).astype(np.int64)
    if (places >= np.repeat(sizes, patches)).any():
        raise ValueError("a run of numbers has a patch beyond its end")
    low = np.repeat(widths, patches).astype(np.uint64)
    high = entries & (np.uint64(_ALL_BITS) >> (np.uint64(_WORD_BITS) - bits))
    np.bitwise_or.at(values, places + np.repeat(_firsts(sizes), patches), high << (low - _ONE) << _ONE)
    base = stream.packed(starts + 4, ones, base_bits)
    sign = _ONE << (base_bits - 1).astype(np.uint64)
    values += np.repeat(np.where(base & sign, np.uint64(0) - (base & ~sign), base), sizes)
    return values


def _sums(stream: _Stream, starts: _Indexes, sizes: _Indexes, runs: _Runs) -> Raw:
    """Returns numbers of which each is the last one and a difference: always the same one, or packed ones."""
    firsts, steps = np.array(runs.firsts, np.uint64), np.array(runs.steps, np.uint64)
    has_packed = (stream.bytes[starts] & 0x3E > 0) & (sizes > 2)
    place = _places(sizes)
    differences = np.repeat(steps, sizes)
    packed = stream.packed(
        np.array(runs.packed, np.int64)[has_packed], sizes[has_packed] - 2, _widths(stream, starts)[has_packed]
    )
    is_packed = np.repeat(has_packed, sizes) & (place > 1)
    # Packed ones have no sign: they go where the first difference goes. All wrap around, as the writer's did.
    goes_down = (differences >> np.uint64(_WORD_BITS - 1) > 0)[is_packed]
    differences[is_packed] = np.where(goes_down, np.uint64(0) - packed, packed)
    differences[place == 0] = firsts
    return _running_sums(differences, sizes)


def _widths(stream: _Stream, starts: _Indexes) -> _Indexes:
    widths: _Indexes = _WIDTH_OF[stream.bytes[starts] >> 1 & 0x1F]
    return widths


def _firsts(sizes: _Indexes) -> _Indexes:
    """Returns where each run begins among the numbers of all."""
    return np.cumsum(sizes) - sizes


def _places(sizes: _Indexes) -> _Indexes:
    """Returns each number's place in its run."""
    return np.arange(int(sizes.sum())) - np.repeat(_firsts(sizes), sizes)


def _running_sums(values: Raw, sizes: _Indexes) -> Raw:
    """Returns the sums of each number and those before it in its run."""
    sums = np.cumsum(values, dtype=np.uint64)
    before = np.concatenate([np.zeros(1, np.uint64), sums])[_firsts(sizes)]
    sums -= np.repeat(before, sizes)
    return sums


def _plain(values: Raw) -> Raw:
    """Returns numbers with a sign of those whose lowest bit is the sign."""
    return values >> _ONE ^ (np.uint64(0) - (values & _ONE))
