"""Runs many cases in one process, each with a directory of its own: ``python -m errors.many CASES RESULTS``.

A script's piece ends as a script does that has raised: by ``sys.excepthook``. A command is called as the entry point
calls it; one that waits for a server runs in a fork beside the others. A pipeline runs in the JVM that this process has
started, as a job that was submitted does.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from errors import forks

_HERE = Path.cwd()
#: Spark gives a Python worker ten seconds to start, which a busy machine does not keep: no answer to what is asked.
_TOO_BUSY, _TRIES = "failed to connect back", 3
#: A script's line may be shown by Python; so no case has it in its own text.
_SECRET = "hunter" + "2"


def _fill(text: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        text = text.replace("{" + name + "}", value)
    return text


def _make_files(case: dict[str, Any], folder: Path, addresses: dict[str, str]) -> dict[str, str]:
    """Makes the case's folder new, with its files. Returns the places that its text may name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    places = {**addresses, "tmp": str(folder)}
    for name, content in case["files"].items():
        path = folder / _fill(name, places)
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("base64:"):
            path.write_bytes(base64.b64decode(content[7:]))
        else:
            path.write_text(_fill(content, places))
    return places


class _Process:
    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses
        self._spark: Any = None

    def fork(self, case: dict[str, Any], folder: Path) -> forks.Fork:
        places = _make_files(case, folder, self._addresses)
        return forks.Fork([_fill(word, places) for word in case["do"]], folder)

    def run(self, case: dict[str, Any], folder: Path) -> dict[str, Any]:
        places = _make_files(case, folder, self._addresses)
        out, err = io.StringIO(), io.StringIO()
        began, code = time.monotonic(), None
        os.chdir(folder)
        environment = dict(os.environ)
        try:
            if case["prepare"]:
                # What goes before the mistake is not what is looked at.
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    self._execute(_fill(case["prepare"], places), folder)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = getattr(self, f"_{case['surface']}")(case, places, folder)
        except BaseException:
            err.write("THE CASE ITSELF FAILED\n" + traceback.format_exc())
        finally:
            os.chdir(_HERE)
            os.environ.clear()
            os.environ.update(environment)
        seconds = round(time.monotonic() - began, 2)
        return {"out": out.getvalue(), "err": err.getvalue(), "exit_code": code, "seconds": seconds}

    # --- surfaces -----------------------------------------------------------------------------------------------------

    def _python(self, case: dict[str, Any], places: dict[str, str], folder: Path) -> None:
        try:
            self._execute(_fill(case["do"], places), folder)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
        finally:
            for query in self._session().streams.active:
                query.stop()

    def _execute(self, text: str, folder: Path) -> None:
        script = folder / "job.py"
        if not script.exists():
            script.write_text(text)
        names = {
            "spark": self._session() if "spark" in text else None,
            "tmp": folder,
            "SECRET": _SECRET,
            "__name__": "__main__",
        }
        exec(compile(text, str(script), "exec"), names)

    def _cli(self, case: dict[str, Any], places: dict[str, str], folder: Path) -> int:
        return forks.exit_code([_fill(word, places) for word in case["do"]])

    def _script(self, case: dict[str, Any], places: dict[str, str], folder: Path) -> int:
        command = [str(Path(sys.executable).with_name("penstock")), *(_fill(word, places) for word in case["do"])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        return done.returncode

    def _run(self, case: dict[str, Any], places: dict[str, str], folder: Path) -> int:
        self._end_session()
        _gateway()
        (folder / "pipeline.yaml").write_text(_fill(case["do"], places))
        return forks.exit_code(["run", str(folder / "pipeline.yaml"), "--plain"])

    # --- Spark --------------------------------------------------------------------------------------------------------

    def _session(self) -> Any:
        if self._spark is None:
            from pyspark.sql import SparkSession

            import penstock

            _gateway()
            settings = {
                "spark.ui.enabled": "false",
                "spark.sql.session.timeZone": "UTC",
                "spark.sql.shuffle.partitions": "1",
                "spark.python.worker.reuse": "true",
            }
            self._spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
            self._spark.sparkContext.setLogLevel("OFF")
            penstock.register(self._spark)
        return self._spark

    def _end_session(self) -> None:
        if self._spark is not None:
            self._spark.stop()
            self._spark = None


def _gateway() -> None:
    """One JVM for all: what is started later joins it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    parameters = gateway.gateway_parameters
    os.environ["PYSPARK_GATEWAY_PORT"] = str(parameters.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = str(parameters.auth_token)


def main(cases_file: str, results_file: str) -> None:
    """Runs every case in the file and notes each outcome as soon as it is known."""
    asked = json.loads(Path(cases_file).read_text())
    process = _Process(asked["addresses"])
    waiting, others = [], []
    for case in sorted(asked["cases"], key=lambda one: one["surface"] == "run"):
        (waiting if case["waits"] else others).append(case)
    if waiting:
        forks.prepare()
    forked = {case["name"]: process.fork(case, _HERE / case["name"]) for case in waiting}
    if any(case["surface"] in ("python", "run") for case in others):
        _gateway()
    with open(results_file, "a") as results:

        def note(name: str, outcome: dict[str, Any]) -> None:
            results.write(json.dumps({"name": name, **outcome}) + "\n")
            results.flush()

        for case in others:
            for _ in range(_TRIES):
                outcome = process.run(case, _HERE / case["name"])
                if _TOO_BUSY not in outcome["err"]:
                    break
            note(case["name"], outcome)
        for name, fork in forked.items():
            note(name, dict(zip(("out", "err", "exit_code"), fork.wait(), strict=True)))


if __name__ == "__main__":
    __package__ = ""  # else the usage that typer shows names this program
    main(*sys.argv[1:])
