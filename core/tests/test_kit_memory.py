"""What the kit measures as memory, after a process has done other things."""

from __future__ import annotations

import pyarrow as pa

from penstock.testing._memory import peak_growth_bytes

_ROWS, _TEXT = 100_000, "x" * 1_000


def _hold():
    return [f"{_TEXT}{i}" for i in range(_ROWS)]


def test_what_was_freed_before_hides_no_growth():
    held = _hold() + _hold()
    kept = held[::100]
    del held
    assert peak_growth_bytes(_hold) > 0.9 * _ROWS * len(_TEXT)
    assert len(kept) == 2_000


def test_what_arrow_keeps_for_later_hides_no_growth():
    numbers = 8 << 20
    pa.repeat(1, numbers)
    assert peak_growth_bytes(lambda: pa.repeat(1, numbers)) > 0.9 * numbers * 8


def test_what_is_held_before_is_no_growth():
    held = _hold()
    assert peak_growth_bytes(lambda: None) < 10 << 20
    assert len(held) == _ROWS
