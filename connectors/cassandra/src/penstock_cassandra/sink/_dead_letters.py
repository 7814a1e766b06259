"""Rows that can't be written, kept as JSON lines with the reason."""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

from penstock.storage import Storage

__all__ = ["DeadLetters"]

_FLUSH_ROWS = 1000
#: Folders from which this process has removed what killed ones left.
_swept: set[str] = set()


class DeadLetters:
    """Files ``<folder>/<name>-<number>.jsonl``, each written as a whole. Memory: 1,000 rows.

    A line is ``{"reason": …, "row": {…}}``; bytes are base64, times ISO 8601, decimals text. A batch that is run again
    writes its bad rows again, into files of another name: they are there at least once.
    """

    def __init__(self, storage: Storage, folder: str, name: str) -> None:
        self._storage = storage
        self._folder = folder.rstrip("/")
        self._name = name
        self._number = 0
        self._lines: list[str] = []

    def put(self, row: dict[str, Any], reason: str) -> None:
        """Keeps a row; durable after :meth:`flush`."""
        self._lines.append(json.dumps({"reason": reason, "row": row}, default=_plain, ensure_ascii=False))
        if len(self._lines) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Writes what is there."""
        if self._lines:
            self._sweep()
            data = ("\n".join(self._lines) + "\n").encode()
            self._storage.put(f"{self._folder}/{self._name}-{self._number}.jsonl", data)
            self._number, self._lines = self._number + 1, []

    def _sweep(self) -> None:
        url = self._storage.url(self._folder)
        if url not in _swept:
            self._storage.sweep(self._folder)
            _swept.add(url)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    return str(value)
