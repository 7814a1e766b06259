"""``python -m audit PIP_AUDIT [--strict]``: audits the locked packages with the pip-audit at that path."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCKED = (
    *("requirements-dev.txt", "docs/requirements.txt", "integration-tests/connect-requirements.txt"),
    *("tools/audit/requirements.txt", "tools/release/requirements.txt"),
)
NOTHING = "nothing is audited (--strict fails)"
#: The exit code if the service can't be asked.
NOT_AUDITED = 3
#: Runs pip-audit on a file of requirements. Returns its exit code, what it printed, and what it complained of.
Run = Callable[[Path], tuple[int, str, str]]


@dataclass
class Findings:
    """``vulnerable``: a line for each vulnerability. ``audited``: packages that the service knows."""

    audited: int = 0
    vulnerable: list[str] = field(default_factory=list)
    problem: str = ""


def audited(run: Run, file: Path) -> Findings:
    """Returns what pip-audit finds in ``file``."""
    code, printed, complaint = run(file)
    try:
        dependencies = json.loads(printed)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = complaint.strip().splitlines()[-1:] or [f"exit code {code}"]
        return Findings(problem=last[0][:200])
    known = [one for one in dependencies if "skip_reason" not in one]
    lines = [
        f"{one['name']} {one['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'none yet'}"
        for one in known
        for found in one["vulns"]
    ]
    return Findings(len(known), lines)


def first_of(file: Path) -> str:
    """Returns the first requirement of a file."""
    return next(line for line in file.read_text("utf-8").splitlines() if line and not line.startswith(("#", "-")))


def audit(run: Run, files: Sequence[Path], say: Callable[[str], None], *, strict: bool) -> int:
    """Audits ``files`` and returns the exit code: 0, 1 (vulnerable), or :data:`NOT_AUDITED`, with ``strict`` 1 as well.

    One package is asked for first: a service that knows nothing of it is not asked for hundreds.
    """
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "requirements.txt"
        probe.write_text(first_of(files[0]) + "\n", "utf-8")
        tried = audited(run, probe)
    if not tried.audited:
        say(f"the vulnerability service does not answer ({tried.problem or 'it knows no package'}): {NOTHING}")
        return 1 if strict else NOT_AUDITED
    found = [audited(run, file) for file in files]
    for line in sorted({line for one in found for line in one.vulnerable}):
        say(line)
    if problem := next((one.problem for one in found if one.problem), ""):
        say(f"not all packages were audited: {problem}")
    if any(one.vulnerable for one in found) or (strict and problem):
        return 1
    return NOT_AUDITED if problem else 0


def pip_audit(program: str) -> Run:
    """Returns what runs the pip-audit at ``program``, on what is in the file and nothing else."""
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]

    def run(file: Path) -> tuple[int, str, str]:
        done = subprocess.run([program, "-r", str(file), *options], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    program, *rest = arguments
    if rest not in ([], ["--strict"]):
        print("usage: scripts/audit [--strict]", file=sys.stderr)
        return 2
    return audit(
        pip_audit(program), [ROOT / one for one in LOCKED], lambda line: print(f"audit: {line}"), strict=bool(rest)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
