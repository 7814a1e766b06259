"""What was found: a file of results, and the tables of ``docs/compatibility.md``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from compat.smoke import AT_LEAST_ONCE, EXACTLY_ONCE, READ, WORKS, Result
from compat.subjects import NOT_RUN, SUBJECTS, Environment, Server, Subject

__all__ = ["PAGE", "Results"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
SYSTEMS = ("files", "kafka", "cassandra", "pravega")
_FILE = Path(__file__).with_name("results.json")
_BLOCK = re.compile(r"(<!-- compatibility: (\w+) -->\n).*?(<!-- /compatibility -->)", re.DOTALL)
_TITLES = {"files": "Files", "kafka": "Kafka", "cassandra": "Cassandra", "pravega": "Pravega"}


class Results:
    """The newest result of each subject."""

    def __init__(self, path: Path = _FILE) -> None:
        self._path = path
        self._found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}

    def add(self, subject: Subject, versions: dict[str, str], found: Iterable[Result]) -> None:
        """Replaces what was known of the subject, and stores it."""
        systems: dict[str, dict[str, str]] = {}
        for one in found:
            systems.setdefault(one.system, {})[one.kind] = one.words
        self._found[subject.name] = {"date": date.today().isoformat(), "versions": versions, "systems": systems}
        order = [one.name for one in SUBJECTS]
        known = {name: self._found[name] for name in order if name in self._found}
        self._path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")

    def problems(self, subject: Subject) -> list[str]:
        """Returns what did not work, a line each."""
        systems = self._found[subject.name]["systems"]
        return [
            f"{subject.name}: {system}, {kind}: {words}"
            for system, kinds in systems.items()
            for kind, words in kinds.items()
            if words != WORKS
        ]

    def page(self, text: str) -> str:
        """Returns the page's text with new tables."""

        def new(block: re.Match[str]) -> str:
            return f"{block[1]}{self._named(block[2])}\n{block[3]}"

        return _BLOCK.sub(new, text)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _named(self, name: str) -> str:
        if name == "environments":
            return self._environments()
        if name == "others":
            return _table(["With", "Why"], [[one.title, one.why] for one in NOT_RUN])
        return self._servers(name)

    def _environments(self) -> str:
        subjects = [one for one in SUBJECTS if isinstance(one, Environment)]
        head = ["With", "Python", "PySpark", "PyArrow", *(_TITLES[system] for system in SYSTEMS), "Run on"]
        return _table(head, [self._environment(one) for one in subjects])

    def _environment(self, subject: Environment) -> list[str]:
        found = self._found.get(subject.name)
        if found is None:
            return [subject.title, *["not run"] * 8]
        versions = found["versions"]
        named = [versions.get(name, "") for name in ("python", "pyspark", "pyarrow")]
        return [subject.title, *named, *(self._cell(found, system) for system in SYSTEMS), found["date"]]

    def _servers(self, system: str) -> str:
        subjects = [one for one in SUBJECTS if isinstance(one, Server) and one.system == system]
        head = ["Server", "Reading", "Writing at least once", "Exactly once, killed and restarted", "Run on"]
        return _table(head, [self._server(one) for one in subjects])

    def _server(self, subject: Server) -> list[str]:
        found = self._found.get(subject.name)
        if found is None:
            return [subject.title, *["not run"] * 4]
        kinds = found["systems"].get(subject.system, {})
        cells = [kinds.get(kind, "not run") for kind in (READ, AT_LEAST_ONCE, EXACTLY_ONCE)]
        return [subject.title, *cells, found["date"]]

    def _cell(self, found: dict[str, Any], system: str) -> str:
        kinds = found["systems"].get(system)
        if not kinds:
            return "not run"
        wrong = [f"{kind}: {words}" for kind, words in kinds.items() if words != WORKS]
        return "; ".join(wrong) or WORKS


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
