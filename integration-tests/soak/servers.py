"""Servers that fail while rows flow, exactly once, with a checker: ``scripts/soak servers``.

For each connector a job copies numbered records, and one thing after the other happens to the servers that it uses, or
to the network in between; now and then the driver is killed. The query must not end by itself, and a reader must get
every record once. At the end a table says what was done, and how long a reader waited for the next record.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError
from soak.findings import Findings
from soak.run import Run, StuckError
from soak.scenes import SCENES, Scene

_LONGEST_FAULT_SECONDS = 25.0
_DRIVER_KILLS = 0.15


@dataclass
class Done:
    """How often something was done, and the longest that a reader waited meanwhile and until it got records again."""

    times: int = 0
    longest_wait_seconds: float = 0.0


class Soak:
    """The soak of one connector."""

    def __init__(self, name: str, scene: Scene, findings: Findings, dice: random.Random) -> None:
        self._name = name
        self._scene = scene
        self._dice = dice
        self._run = Run(scene.supervisor, scene.feeder, scene.checker, findings, look=scene.look)
        self._done: dict[str, Done] = {}
        self._began = time.monotonic()

    def run(self, seconds: float) -> None:
        """Does one thing after the other until the time is over, then waits for the last record. Raises StuckError."""
        self._recover()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._run.attend(end, calm_seconds=self._dice.uniform(0.5, 10))
            if self._dice.random() < _DRIVER_KILLS:
                self._disturb("driver killed", self._kill_driver)
            else:
                self._fail(self._dice.choice(list(self._scene.faults)))
        self._run.finish()

    def _fail(self, name: str) -> None:
        seconds = self._dice.uniform(1, _LONGEST_FAULT_SECONDS)

        def happen() -> None:
            with self._scene.faults[name](self._dice) as where:
                self._say(f"{name}: {where}, {seconds:.0f} s")
                self._run.attend(time.monotonic() + seconds)

        self._disturb(name, happen)

    def _kill_driver(self) -> None:
        self._say("driver killed")
        self._scene.supervisor.kill()

    def _disturb(self, name: str, happen: Callable[[], None]) -> None:
        self._run.longest_wait_seconds = 0.0
        happen()
        self._recover()
        done = self._done.setdefault(name, Done())
        done.times += 1
        done.longest_wait_seconds = max(done.longest_wait_seconds, self._run.longest_wait_seconds)

    def _recover(self) -> None:
        """Until records come again."""
        self._run.disturb()
        self._run.attend(float("inf"), calm_seconds=0.1)

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:7.0f} s  {what}", flush=True)

    def summary(self) -> str:
        """Returns the table."""
        width = max((len(name) for name in self._done), default=0)
        lines = [
            f"  {name:{width}}  {done.times:4d} times   {done.longest_wait_seconds:6.1f} s"
            for name, done in sorted(self._done.items())
        ]
        begin = f"{self._name}: what was done, and the longest that a reader waited for a record"
        return "\n".join(["", begin, *lines, f"  {self._run.counts()}", ""])


def soak(name: str, seconds: float, dice: random.Random, rate: int, folder: Path) -> bool:
    """Soaks one connector. Returns whether nothing was violated."""
    findings = Findings()
    print(f"{name}: servers start …", flush=True)
    with ExitStack() as stack:
        scene = SCENES[name](folder, rate, findings)
        stack.enter_context(scene.ends)
        one = Soak(name, scene, findings, dice)
        try:
            one.run(seconds)
        except StuckError as error:
            findings.add(str(error))
    print(one.summary(), flush=True)
    return not findings.count


def main() -> int:
    """Soaks one connector after the other. Returns the exit code: 0 if nothing violated the guarantees."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak servers", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("minutes", nargs="?", type=float, default=20, help="how long, equally for each (default 20)")
    parser.add_argument("--seed", type=int, help="repeats the random choices of an earlier run")
    parser.add_argument("--rate", type=int, default=200, help="records a second (default 200)")
    parser.add_argument("--only", nargs="+", choices=list(SCENES), default=list(SCENES), help="of these connectors")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10_000)
    folder = Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    print(f"seed {seed} · logs in {folder}", flush=True)
    good = False
    try:
        seconds = arguments.minutes * 60 / len(arguments.only)
        results = []
        for name in arguments.only:
            (own := folder / name).mkdir()
            results.append(soak(name, seconds, random.Random(f"{seed} {name}"), arguments.rate, own))
        good = all(results)
    except PenstockError as error:
        print(f"soak: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    finally:
        if good:
            shutil.rmtree(folder, ignore_errors=True)
    again = f"{arguments.minutes:g} --seed {seed} --rate {arguments.rate} --only {' '.join(arguments.only)}"
    print(f"the same choices again: scripts/soak servers {again}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
