"""Small drawings in text, and numbers as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["bar", "human_bytes", "human_count", "human_duration", "human_lag", "plural", "sparkline"]

_LEVELS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


_OF_A_PARTITION = re.compile(r".+-\d+", re.DOTALL)


def sparkline(values: Sequence[float], width: int) -> str:
    """Returns the last ``width`` values as columns from zero to their greatest; nothing read is a gap."""
    shown = list(values)[-width:]
    top = max(shown, default=0)
    if top <= 0:
        return " " * len(shown)
    steps = len(_LEVELS) - 1
    return "".join(_LEVELS[round(value / top * steps)] if value > 0 else " " for value in shown)


def bar(fraction: float, width: int) -> str:
    """Returns a bar that fills ``fraction`` (0 to 1) of ``width`` cells, to an eighth of a cell."""
    eighths = round(min(1.0, max(0.0, fraction)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def human_count(number: float) -> str:
    """``1,234``, ``1.23 M``, ``4.56 G``, ``7.89 T``."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(number) >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number:,.0f}"


def human_bytes(number: float) -> str:
    """``512 B``, ``3.4 MiB``."""
    size = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"


def human_duration(seconds: float) -> str:
    """``0:42``, ``1:02:03``."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, seconds_left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"


def human_lag(lag: Mapping[str, float]) -> str:
    """``12 files, 3.4 MiB``; ``none`` if nothing waits, ``not told`` if no source says.

    Of partitions (``orders-0``) it says only how many have something waiting, if the source has the sum.
    """
    if not lag:
        return "not told"
    whole = {name: amount for name, amount in lag.items() if not _OF_A_PARTITION.fullmatch(name)} or lag
    behind = sum(1 for name, amount in lag.items() if name not in whole and amount)
    parts = [human_bytes(n) if name.endswith("bytes") else f"{human_count(n)} {name}" for name, n in whole.items() if n]
    if behind:
        parts[-1:] = [f"{part} in {plural(behind, 'partition')}" for part in parts[-1:]]
    return ", ".join(parts) or "none"


def plural(number: int, noun: str) -> str:
    """``1 file``, ``2 files``, ``3 batches``."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"
