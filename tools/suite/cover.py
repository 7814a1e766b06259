"""Branch coverage of a run: of the processes that run tests, and of Spark's Python workers in their sessions.

Not measured are the drivers that tests start and kill, since measuring each of their processes takes as long again as
they run. :func:`prepare` is called before pytest starts, :func:`report` after it has ended; every Python process in
between that inherits ``SUITE_COVER`` measures itself (``measured.py``).
"""

from __future__ import annotations

import json
import shutil
import site
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

__all__ = ["VARIABLE", "prepare", "report"]

ROOT = Path(__file__).resolve().parents[2]
#: Names the settings of coverage.py.
VARIABLE = "SUITE_COVER"
_FOLDER = ROOT / ".cache" / "coverage"
#: What Python runs when it starts, as one line, which is what a ``.pth`` file takes.
_HOOK = "import os, sys; 'SUITE_COVER' in os.environ and (sys.path.append({tools!r}), __import__('suite.measured'))"
_SETTINGS = """\
[run]
branch = true
source_pkgs = penstock, penstock_filesystem, penstock_kafka, penstock_cassandra, penstock_pravega
data_file = {folder}/data
disable_warnings = module-not-imported, no-data-collected, module-not-measured, already-imported
"""


def prepare() -> dict[str, str]:
    """Variables for pytest's environment. What an earlier run measured is deleted."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    settings = _FOLDER / "settings.ini"
    settings.write_text(_SETTINGS.format(folder=_FOLDER))
    # Python runs such a file when it starts; it does nothing without the variable.
    (Path(site.getsitepackages()[0]) / "suite-cover.pth").write_text(_HOOK.format(tools=str(ROOT / "tools")) + "\n")
    return {VARIABLE: str(settings)}


def report() -> str:
    """Combines what was measured; a table by package, and where the lists by file and line are."""
    command = [sys.executable, "-m", "coverage"]
    settings = f"--rcfile={_FOLDER / 'settings.ini'}"
    for arguments in (["combine", "--quiet"], ["json", "--quiet", f"-o{_FOLDER / 'report.json'}"]):
        subprocess.run([*command, *arguments, settings], cwd=ROOT, check=True)
    with (_FOLDER / "report.txt").open("w") as file:
        subprocess.run([*command, "report", "--show-missing", settings], cwd=ROOT, check=True, stdout=file)
    only = _only_exhaustive()
    (_FOLDER / "only-all.txt").write_text("\n".join(only) + "\n")
    measured = json.loads((_FOLDER / "report.json").read_text())
    lines = [*_by_package(measured), f"by file: {_FOLDER / 'report.txt'}"]
    if only:
        lines.append(f"covered by the second tier alone: {len(only)} places, {_FOLDER / 'only-all.txt'}")
    return "\n".join(lines)


def _by_package(measured: dict[str, object]) -> list[str]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    files: dict[str, dict[str, dict[str, int]]] = measured["files"]  # type: ignore[assignment]
    for path, file in files.items():
        package = path.split("/src/")[1].split("/")[0]
        of = file["summary"]
        counts = (of["covered_lines"], of["num_statements"], of["covered_branches"], of["num_branches"])
        for name in (package, "all"):
            sums[name] = [a + b for a, b in zip(sums[name], counts, strict=True)]
    return [
        f"{name:22} lines {100 * lines / of:5.1f} % of {of:6}   branches {100 * branches / forks:5.1f} % of {forks:5}"
        for name, (lines, of, branches, forks) in sorted(sums.items())
    ]


def _only_exhaustive() -> list[str]:
    """``file:lines`` that tests of the second tier alone came to, in the processes that run tests."""
    from coverage import CoverageData

    data = CoverageData(str(_FOLDER / "data"))
    data.read()
    found = []
    for path in sorted(data.measured_files()):
        lines = [line for line, contexts in data.contexts_by_lineno(path).items() if set(contexts) == {"exhaustive"}]
        if lines:
            found.append(f"{Path(path).relative_to(ROOT)}: {', '.join(map(str, sorted(lines)))}")
    return found
