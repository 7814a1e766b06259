"""What the registry is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import PenstockError

__all__ = ["Target", "as_they_are"]


def as_they_are(data: bytes) -> bytes:
    """Returns an input that needs no repair."""
    return data


@dataclass(frozen=True)
class Target:
    """One decoder. ``run`` must return, or raise one of ``errors`` whose message holds ``where``.

    ``seeds`` are whole inputs that are mutated. ``inputs`` are tried as they are: what once went wrong; of these,
    ``refused`` must raise. ``repair`` makes a mutated input plausible (checksums, compression), so that it gets past
    the first check. ``reads`` names the modules that the target is the entry of. An input may take ``memory_mb`` on top
    of what the process has after the seeds, and ``cpu_s`` of the processor.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    reads: tuple[str, ...]
    inputs: Callable[[], Sequence[bytes]] = tuple
    refused: Callable[[], Sequence[bytes]] = tuple
    errors: tuple[type[Exception], ...] = (PenstockError,)
    where: str = ""
    repair: Callable[[bytes], bytes] = as_they_are
    memory_mb: int = 512
    cpu_s: float = 5.0
