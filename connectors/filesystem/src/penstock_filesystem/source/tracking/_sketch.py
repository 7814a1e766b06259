"""A set in constant space, from which a small difference to another set can be read (an invertible Bloom lookup table).

Eppstein, Goodrich, Uyeda, Varghese: "What's the Difference?", SIGCOMM 2011.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import BadDataError

__all__ = ["Difference", "SetSketch"]

_PART = 256
_CELLS = 3 * _PART
_MIX = 0x9E3779B97F4A7C15
_FORM = struct.Struct(f"<{_CELLS}i{_CELLS}Q{_CELLS}I")


@dataclass(frozen=True)
class Difference:
    """The difference of two sets, as far as it could be read; all of it if ``complete``."""

    only_here: frozenset[int]
    only_there: frozenset[int]
    complete: bool


def _check(value: int) -> int:
    return (value * _MIX >> 32) & 0xFFFFFFFF


class SetSketch:
    """Fingerprints (64 bits, uniform) in 12 KiB, whatever their number. About 500 differences can be read back."""

    def __init__(self) -> None:
        self._counts = [0] * _CELLS
        self._keys = [0] * _CELLS
        self._checks = [0] * _CELLS

    def add(self, values: Iterable[int], sign: int = 1) -> None:
        """Adds ``values``, or takes them out with ``sign`` -1."""
        counts, keys, checks = self._counts, self._keys, self._checks
        for value in values:
            check = (value * _MIX >> 32) & 0xFFFFFFFF
            for cell in (value & 255, _PART + (value >> 8 & 255), 2 * _PART + (value >> 16 & 255)):
                counts[cell] += sign
                keys[cell] ^= value
                checks[cell] ^= check

    def difference(self, other: Iterable[int]) -> Difference:
        """Returns how the set differs from ``other``."""
        rest = SetSketch.from_bytes(self.to_bytes())
        rest.add(other, -1)
        found: dict[int, set[int]] = {1: set(), -1: set()}
        waiting = list(range(_CELLS))
        while waiting:
            cell = waiting.pop()
            sign, value = rest._counts[cell], rest._keys[cell]
            if sign in (1, -1) and rest._checks[cell] == _check(value) and value not in found[sign]:
                found[sign].add(value)
                rest.add([value], -sign)
                waiting += [value & 255, _PART + (value >> 8 & 255), 2 * _PART + (value >> 16 & 255)]
        complete = not any(rest._counts) and not any(rest._keys)
        return Difference(frozenset(found[1]), frozenset(found[-1]), complete)

    def to_bytes(self) -> bytes:
        """Returns the stored form: counts (int32), keys (uint64), checks (uint32), little endian."""
        return _FORM.pack(*self._counts, *self._keys, *self._checks)

    @classmethod
    def from_bytes(cls, data: bytes) -> SetSketch:
        """Inverts :meth:`to_bytes`; no bytes are an empty set. Raises BadDataError for a sketch of another size."""
        sketch = cls()
        if len(data) not in (0, _FORM.size):
            raise BadDataError(f"the checkpoint's sketch of files that were read has {len(data)} bytes: it is damaged")
        if data:
            values = list(_FORM.unpack(data))
            sketch._counts, sketch._keys, sketch._checks = values[:_CELLS], values[_CELLS:-_CELLS], values[-_CELLS:]
        return sketch
