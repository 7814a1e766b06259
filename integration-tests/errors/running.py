"""From cases to outcomes: a process of its own runs them, see :mod:`errors.many`."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from errors.case import Case, Outcome

__all__ = ["outcomes_of"]

_HERE = Path(__file__).parents[1]
#: Of the user, whom nothing in the environment helps.
_HIDDEN = ("PENSTOCK_", "PYSPARK_GATEWAY", "AWS_", "PRAVEGA_")
_PORTS = ("refused", "http", "ssh", "silent", "closing", "tls")


def _stored(content: str | bytes) -> str:
    return content if isinstance(content, str) else "base64:" + base64.b64encode(content).decode()


def outcomes_of(cases: Sequence[Case], folder: Path, addresses: dict[str, str], timeout_s: float) -> dict[str, Outcome]:
    """Runs ``cases`` in a process, with ``folder`` to work in. Returns what was printed, by name. One that is missing
    did not run: the process ended before.
    """
    ports = {f"{name}_port": addresses[name].rpartition(":")[2] for name in _PORTS}
    asked = {
        "addresses": {**addresses, **ports},
        "cases": [{**asdict(case), "files": {k: _stored(v) for k, v in case.files.items()}} for case in cases],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.json").write_text(json.dumps(asked))
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    results.touch()
    environment = {name: text for name, text in os.environ.items() if not name.startswith(_HIDDEN)}
    paths = [str(_HERE), environment.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-m", "errors.many", str(folder / "cases.json"), str(results)]
    with (folder / "process.log").open("w") as log:
        try:
            subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            log.write("\nit took too long\n")
    told = (json.loads(line) for line in results.read_text().splitlines())
    return {one.pop("name"): Outcome(**one) for one in told}
