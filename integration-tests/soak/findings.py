"""Collects violations of the guarantees."""

from __future__ import annotations

import threading

_SHOWN = 50


class Findings:
    """Prints and counts violations. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, what: str) -> None:
        with self._lock:
            self.count += 1
            if self.count <= _SHOWN:
                print(f"VIOLATION  {what}", flush=True)
            elif self.count == _SHOWN + 1:
                print("VIOLATION  … more, not shown", flush=True)
