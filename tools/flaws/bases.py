"""What flaws are planted in: connectors that pass the kit, each with its suite."""

from __future__ import annotations

import contextlib
import io
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.cli._new import new_connector

__all__ = ["BASES", "Base"]

_EXAMPLES = Path(__file__).parents[2] / "examples"

#: In the folder of the tests: less of everything, since each flaw runs them, and what takes long at the end.
_CONFTEST = """\
from penstock.source import SimpleSource
from penstock.testing import SinkSuite, SourceSuite, _source_base

SimpleSource.discovery_interval_ms = 10
SinkSuite.kill_seconds, SinkSuite.schedules, SinkSuite.most_memory_bytes = 9.0, 5, 160 << 20
SourceSuite.most_memory_bytes, SourceSuite.steps = 32 << 20, 200
SinkSuite.case_seconds, SourceSuite.case_seconds = 60.0, 20.0
_source_base.PATIENCE_S, _source_base.LOOKS = 2.0, 20
_LAST = ("killed_at_every_line", "many_rows", "many_batches", "huge", "crash_at_every_step", "schedules_by_chance")


def pytest_collection_modifyitems(items):
    for item in items:
        item.cls.many = MANY
    items.sort(key=lambda item: any(part in item.name for part in _LAST))
"""


@dataclass(frozen=True)
class Base:
    """``sample`` is what ``penstock new`` writes of this kind, or ``example`` a folder; ``tests`` selects the suite."""

    tests: str
    sample: Literal["source", "sink", "database", "connector"] | None = None
    example: str | None = None
    file: str = "test_conformance.py"

    def make(self, folder: Path, many: int) -> Path:
        """Writes the project below ``folder``. Returns its package."""
        if self.sample is not None:
            with contextlib.redirect_stdout(io.StringIO()):
                new_connector(self.sample, "flawed", folder)
            project = folder / "penstock-flawed"
        else:
            assert self.example is not None
            project = Path(
                shutil.copytree(
                    _EXAMPLES / self.example, folder / self.example, ignore=shutil.ignore_patterns("__pycache__")
                )
            )
        (project / "tests" / "conftest.py").write_text(_CONFTEST.replace("MANY", str(many)))
        (package,) = [path for path in (project / "src").iterdir() if (path / "__init__.py").exists()]
        return package


BASES = {
    "sink": Base("TestSink", sample="sink"),
    "source": Base("TestSource", sample="source"),
    "database sink": Base("TestSink", sample="database"),
    "connector sink": Base("TestSink", sample="connector"),
    "connector source": Base("TestSource", sample="connector"),
    "sqlite append": Base("TestAppend", example="penstock-sqlite"),
    "sqlite upsert": Base("TestUpsert", example="penstock-sqlite"),
    "sqlite source": Base("TestSource", example="penstock-sqlite"),
    "socket sink": Base("TestSink", example="penstock-basics", file="test_sockets.py"),
    "socket source": Base("TestSource", example="penstock-basics", file="test_sockets.py"),
}
