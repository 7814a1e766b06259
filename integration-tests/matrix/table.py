"""The results of every source with every sink: numbers in a file, and a table in a page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from matrix.streams import Stream

__all__ = ["SYSTEMS", "Seen"]

#: The guarantee of a sink by delivery. Each of our sources can replay exactly.
PROMISES = {
    "files": {"exactly-once": "exactly once"},
    "kafka": {"exactly-once": "exactly once", "at-least-once": "at least once"},
    "cassandra": {"exactly-once": "effectively exactly once", "at-least-once": "at least once"},
    "pravega": {"exactly-once": "exactly once", "at-least-once": "at least once"},
}
SYSTEMS = tuple(PROMISES)
_FILE = Path(__file__).with_name("seen.json")
_NUMBERS = ("rounds", "kills", "rows", "lost", "repeated", "strange")
_WORDS = (
    "`scripts/soak every` runs streams from each system to each, plain or through windows, "
    "in one process and on a cluster.\n"
    "It kills drivers, executors, Python processes, the broker and the Cassandra node at random.\n"
    "It compares all rows with a batch computation, "
    "and the table would show rows that are lost, unexpected or duplicated."
)
_BLOCK = re.compile(r"<!-- every with every -->.*?<!-- /every with every -->", re.DOTALL)


class Seen:
    """Rounds, kills and rows by pair of systems and delivery, summed over all soaks."""

    def __init__(self, path: Path = _FILE) -> None:
        self._path = path
        stored: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"date": "", "pairs": {}}
        self._date: str = stored["date"]
        self._pairs: dict[str, dict[str, int]] = stored["pairs"]

    def add(self, streams: Sequence[Stream], kills: int) -> None:
        """Adds the results of one round, and stores them."""
        for stream in streams:
            found = stream.outcome()
            pair = self._pairs.setdefault(f"{stream.name} {stream.delivery}", dict.fromkeys(_NUMBERS, 0))
            amounts = {"rounds": 1, "kills": kills, "rows": stream.expected().total()}
            amounts |= {name: getattr(found, name).total() for name in ("lost", "repeated", "strange")}
            for name, amount in amounts.items():
                pair[name] += amount
        self._date = date.today().isoformat()
        text = json.dumps({"date": self._date, "pairs": dict(sorted(self._pairs.items()))}, indent=1)
        self._path.write_text(text + "\n", "utf-8")

    def table(self) -> str:
        """Returns the table: a line for each source, a column for each sink."""
        lines = ["| from, to | " + " | ".join(SYSTEMS) + " |", "| --- |" + " --- |" * len(SYSTEMS)]
        lines += [
            f"| {source} | " + " | ".join(self._cell(f"{source}-{sink}", sink) for sink in SYSTEMS) + " |"
            for source in SYSTEMS
        ]
        return "\n".join(lines)

    def _cell(self, pair: str, sink: str) -> str:
        return "<br>".join(
            self._words(f"{pair} {delivery}", delivery, words) for delivery, words in PROMISES[sink].items()
        )

    def _words(self, key: str, delivery: str, promise: str) -> str:
        seen = self._pairs.get(key)
        if seen is None:
            return f"{promise}: not run"
        broken = ("lost", "strange", "repeated") if delivery == "exactly-once" else ("lost", "strange")
        wrong = [f"{seen[name]:,} {name}" for name in broken if seen[name]]
        if wrong:
            return f"**{promise}: {', '.join(wrong)}** of {seen['rows']:,} rows"
        again = f", {seen['repeated']:,} came again" if seen["repeated"] else ""
        kills = "1 kill" if seen["kills"] == 1 else f"{seen['kills']} kills"
        return f"**{promise}**: {seen['rows']:,} rows, {kills}{again}"

    def write_page(self, page: Path) -> None:
        """Replaces the block ``<!-- every with every -->`` of the page."""
        words = f"{_WORDS}\nThe last run was on {self._date}."
        block = f"<!-- every with every -->\n\n{words}\n\n{self.table()}\n<!-- /every with every -->"
        page.write_text(_BLOCK.sub(lambda _: block, page.read_text("utf-8"), count=1), "utf-8")
