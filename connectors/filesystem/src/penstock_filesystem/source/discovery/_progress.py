"""Says how far a long listing is: a store with a million files is asked for minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager

from penstock.printable import get_logger

__all__ = ["progress_of_listing"]

_log = get_logger("penstock.filesystem")
_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress_of_listing(roots: Sequence[str], found: Sized) -> Iterator[None]:
    """Logs how many files are ``found``, every ten seconds until the block ends.

    In a thread of its own, since a store may answer a whole listing in one call. Some stores do, and then nothing is
    found before the end.
    """
    ended = threading.Event()
    started = time.monotonic()

    def report() -> None:
        while not ended.wait(_SECONDS_BETWEEN_LINES):
            _log.warning(
                "listing %s takes long: %.0f s, and %s files so far",
                ", ".join(roots),
                time.monotonic() - started,
                f"{len(found):,}",
            )

    thread = threading.Thread(target=report, name="penstock-listing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
