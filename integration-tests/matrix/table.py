"""What was seen of every source with every sink, as numbers in a file and as a table in a page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from killing import Stream

__all__ = ["Seen"]

#: What a sink's template promises, where every source of ours can be read again exactly.
PROMISES = {
    "files": "exactly once",
    "kafka": "exactly once",
    "cassandra": "effectively exactly once: rows under their key",
    "pravega": "exactly once",
}
SYSTEMS = tuple(PROMISES)
_WORDS = (
    "Seen so far in `scripts/soak every`: streams from each to each, plain or through windows, while drivers, Python\n"
    "processes, the broker and the Cassandra node are killed at random; rows that came out, none lost, none doubled."
)
_BLOCK = re.compile(r"<!-- every with every -->.*?<!-- /every with every -->", re.DOTALL)


class Seen:
    """Rounds, kills and rows by pair of systems, added up over soaks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pairs: dict[str, dict[str, int]] = json.loads(path.read_text("utf-8"))["pairs"] if path.exists() else {}

    def add(self, streams: Sequence[Stream], kills: int) -> None:
        """One round with what came out of it; stored at once."""
        for stream in streams:
            lost, more = stream.differences()
            pair = self._pairs.setdefault(stream.name, dict.fromkeys(("rounds", "kills", "rows", "lost", "doubled"), 0))
            amounts = {"rounds": 1, "kills": kills, "rows": stream.expected().total()}
            for name, amount in {**amounts, "lost": lost.total(), "doubled": more.total()}.items():
                pair[name] += amount
        text = json.dumps({"date": date.today().isoformat(), "pairs": dict(sorted(self._pairs.items()))}, indent=1)
        self._path.write_text(text + "\n", "utf-8")

    def table(self) -> str:
        """Sources down, sinks across."""
        lines = ["| from, to | " + " | ".join(SYSTEMS) + " |", "| --- |" + " --- |" * len(SYSTEMS)]
        lines += [
            f"| {source} | " + " | ".join(self._cell(f"{source}-{sink}", sink) for sink in SYSTEMS) + " |"
            for source in SYSTEMS
        ]
        return "\n".join(lines)

    def _cell(self, pair: str, sink: str) -> str:
        seen = self._pairs.get(pair)
        if seen is None:
            return "not run"
        if seen["lost"] or seen["doubled"]:
            return f"**lost {seen['lost']:,}, doubled {seen['doubled']:,}**"
        return f"{PROMISES[sink]}<br>{seen['rows']:,} rows, {seen['kills']} kills"

    def write_page(self, page: Path) -> None:
        """Puts the table between ``<!-- every with every -->`` and its end."""
        block = f"<!-- every with every -->\n\n{_WORDS}\n\n{self.table()}\n<!-- /every with every -->"
        page.write_text(_BLOCK.sub(lambda _: block, page.read_text("utf-8"), count=1), "utf-8")
