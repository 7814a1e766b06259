"""Drops the year into a directory, a file for each day, in the order in which the flights were reported."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

COLUMNS = ["scheduled", "departed", "carrier", "flight", "origin", "dest"]
#: Days that wait for the job when it starts.
BACKLOG = 40
#: Days held back until :meth:`Feeder.hurry`, so that files still come after the last kill, however slow the machine is.
HELD_BACK = 30


class Feeder(threading.Thread):
    """Writes one file after the other at an even pace; :meth:`hurry` drops the pauses and releases the last ones.

    A file appears at once and whole: it is written under a hidden name and renamed. The last file is a heartbeat. An
    hour is counted out only when the watermark has passed its end, and the watermark follows what was read, so the
    year's last hours would wait for news that never comes. The heartbeat is one row dated four days later. Nobody waits
    for its own hour: it stays open, as the newest hour of a stream always does.
    """

    def __init__(self, flights: pa.Table, directory: Path, *, seconds: float) -> None:
        super().__init__(name="feeder", daemon=True)
        self._days = _days(flights)
        self._directory = directory
        self._pause = seconds / max(1, len(self._days))
        self._hurry = threading.Event()
        self.total = len(self._days) + 1
        self.fed = 0
        self.newest = ""
        self.error: OSError | None = None

    @property
    def done(self) -> bool:
        """Whether every file is there."""
        return self.fed == self.total

    def hurry(self) -> None:
        """Everything that is left, without pauses."""
        self._hurry.set()

    def run(self) -> None:
        """See the class."""
        try:
            for number, (day, rows) in enumerate(self._days):
                self._drop(f"flights-{day}.csv", rows)
                self.newest = day
                if number >= BACKLOG:
                    self._hurry.wait(self._pause if number < len(self._days) - HELD_BACK else None)
            self._drop("heartbeat.csv", _heartbeat(self._days[-1][1].schema))
        except OSError as error:
            self.error = error

    def _drop(self, name: str, rows: pa.Table) -> None:
        hidden = self._directory / f".{name}"
        pa.csv.write_csv(rows, hidden)
        os.rename(hidden, self._directory / name)
        self.fed += 1


def _days(flights: pa.Table) -> list[tuple[str, pa.Table]]:
    """The rows of each day of arrival, in the order of arrival."""
    ordered = flights.sort_by([("arrival", "ascending"), ("scheduled", "ascending")])
    day = pc.strftime(ordered["arrival"], "%Y-%m-%d")
    counts = pc.value_counts(day)  # in the order of first appearance
    files, start = [], 0
    for name, length in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
        files.append((name, ordered.slice(start, length).select(COLUMNS)))
        start += length
    return files


def _heartbeat(schema: pa.Schema) -> pa.Table:
    late = datetime(2014, 1, 5, tzinfo=timezone.utc)
    row = {"scheduled": late, "departed": None, "carrier": "-", "flight": 0, "origin": "-", "dest": "-"}
    return pa.Table.from_pylist([row], schema=schema)
