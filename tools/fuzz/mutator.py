"""Changes inputs at random: the same seed gives the same inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["Mutator"]

_LARGEST_INPUT = 64 << 10
#: Numbers that lengths and counts are wrong with.
_NUMBERS = [0, 1, -1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
_NUMBERS += [-(1 << 31), 1 << 40, (1 << 63) - 1, 1 << 63, -(1 << 63), -2, 0x3FFFFFFF]
#: Texts that JSON and CSV are wrong with.
_TEXTS = [b"null", b"true", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'""', b"[" * 2000, b'{"a":' * 2000, b"9" * 5000]
_TEXTS += [b"\xff\xfe", b"\x00", b"\n", b"\r\n", b'"', b"\\u0000", b"\\ud800", b"99999999999999999999", b"0.1", b","]


class Mutator:
    """Takes one of the seeds, and changes it in one to some places."""

    def __init__(self, seed: int, seeds: Sequence[bytes]) -> None:
        self._dice = random.Random(seed)
        self._seeds = list(seeds)
        self._kinds = (
            self._flip,
            self._set_byte,
            self._set_number,
            self._set_number,
            self._cut,
            self._cut_end,
            self._repeat,
            self._insert,
            self._put_text,
            self._splice,
        )

    def next(self) -> bytes:
        """Returns the next input, of at most 64 KiB."""
        data = bytearray(self._dice.choice(self._seeds))
        for _ in range(min(8, int(self._dice.expovariate(0.6)) + 1)):
            self._dice.choice(self._kinds)(data)
        return bytes(data[:_LARGEST_INPUT])

    def _at(self, data: bytearray) -> int:
        # Heads are where most of what can go wrong is.
        limit = len(data) if self._dice.random() < 0.6 else min(len(data), 80)
        return self._dice.randrange(limit + 1)

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._at(data) % len(data)] ^= 1 << self._dice.randrange(8)

    def _set_byte(self, data: bytearray) -> None:
        if data:
            data[self._at(data) % len(data)] = self._dice.choice([0, 1, 0x7F, 0x80, 0xFF, self._dice.randrange(256)])

    def _set_number(self, data: bytearray) -> None:
        size = self._dice.choice([1, 2, 4, 8])
        number = self._dice.choice([*_NUMBERS, len(data), len(data) - 1, len(data) + 1, self._dice.getrandbits(63)])
        order = self._dice.choice(["big", "big", "little"])
        at = self._at(data)
        data[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, order)  # type: ignore[arg-type]

    def _cut(self, data: bytearray) -> None:
        at = self._at(data)
        del data[at : at + self._dice.choice([1, 2, 4, 8, self._dice.randrange(1, 64)])]

    def _cut_end(self, data: bytearray) -> None:
        del data[self._at(data) :]

    def _repeat(self, data: bytearray) -> None:
        at, size = self._at(data), self._dice.randrange(1, 64)
        times = self._dice.choice([1, 1, 2, 10, 200])
        data[at:at] = data[at : at + size] * times

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self._dice.randbytes(self._dice.choice([1, 2, 4, 8, 16]))

    def _put_text(self, data: bytearray) -> None:
        at, text = self._at(data), self._dice.choice(_TEXTS)
        data[at : at + self._dice.choice([0, 1, len(text)])] = text

    def _splice(self, data: bytearray) -> None:
        other = self._dice.choice(self._seeds)
        at, start = self._at(data), self._dice.randrange(len(other) + 1)
        data[at : at + self._dice.randrange(64)] = other[start : start + self._dice.randrange(1, 256)]
