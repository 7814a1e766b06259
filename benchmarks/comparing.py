"""``scripts/bench NAME --compare REF``: the working tree beside another commit, by the same benchmark.

Both run ``NAME --quick`` in turn, each in its own checkout with its own environment; the benchmark's code is this
tree's on both sides. A benchmark also measures what Penstock is compared with, which is the same on both sides: how
much that differs between the two is the noise. What got slower in every round, and by more than the noise, is reported
as slower, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import OURS, Measurement, number

#: Less is never called a difference, however quiet the machine was.
LEAST = 0.03
#: What one round of one side found, by the measurement's name.
Round = Mapping[str, Measurement]


@dataclass(frozen=True)
class Compared:
    """A measurement of both commits. ``ratios`` of the rounds: above 1 this tree is better.

    ``noise``: by how much what did not change differed, 0.1 is a tenth.
    """

    name: str
    unit: str
    now: float
    before: float
    ratios: tuple[float, ...]
    noise: float

    @property
    def ratio(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> str:
        """``slower``, ``faster``, or empty: not more than the noise, or not in every round."""
        limit = 1 + max(self.noise, LEAST)
        if max(self.ratios) < 1 and self.ratio < 1 / limit:
            return "slower"
        return "faster" if min(self.ratios) > 1 and self.ratio > limit else ""


def compare(now: Sequence[Round], before: Sequence[Round]) -> list[Compared]:
    """Returns what both sides measured in every round. Round ``i`` of one ran right next to that of the other."""
    names = [name for name in now[0] if all(name in one for one in (*now, *before))]
    pairs = {name: [(one[name], other[name]) for one, other in zip(now, before, strict=True)] for name in names}
    controls = {name: _ratios(found, False) for name, found in pairs.items()}
    everywhere = [ratio for found in controls.values() for ratio in found]
    compared = []
    for name, found in pairs.items():
        ratios = _ratios(found, True)
        if ratios:
            control = controls[name] or everywhere
            noise = math.exp(max((abs(math.log(ratio)) for ratio in control), default=0.0)) - 1
            values = [statistics.median(one.median(OURS) or 0 for one in side) for side in zip(*found, strict=True)]
            compared.append(Compared(name, found[0][0].unit, values[0], values[1], tuple(ratios), noise))
    return compared


def _ratios(found: Sequence[tuple[Measurement, Measurement]], ours: bool) -> list[float]:
    """Of Penstock, or of all that it is compared with."""
    ratios = []
    for now, before in found:
        for side in now.values:
            one, other = now.median(side), before.median(side) if side in before.values else None
            if (side == OURS) == ours and one and other:
                ratios.append(one / other if now.better == "more" else other / one)
    return ratios


def as_table(compared: Sequence[Compared], ref: str) -> str:
    """Returns Markdown."""
    lines = [f"| | unit | this tree | {ref} | ratio | noise | |", "| --- | --- | --: | --: | --: | --: | --- |"]
    for one in compared:
        spread = f"{one.ratio:.2f} × ({min(one.ratios):.2f}–{max(one.ratios):.2f})"
        lines.append(
            f"| {one.name} | {one.unit} | {number(one.now)} | {number(one.before)} | {spread} | "
            f"{one.noise:.0%} | {one.verdict and f'**{one.verdict}**'} |"
        )
    return "\n".join(lines)


class Checkout:
    """A directory with sources, an environment and benchmarks."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, name: str, arguments: Sequence[str]) -> Round:
        """Returns what a quick run finds. Ends the command if the benchmark fails."""
        for old in (self.root / ".cache").glob("bench-*-quick.json"):
            old.unlink()
        python = str(self.root / ".venv" / "bin" / "python")
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / "tools"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        }
        command = [python, "-m", f"benchmarks.{name}", "--quick", *arguments]
        done = subprocess.run(command, cwd=self.root, env=environment, stdout=subprocess.DEVNULL, check=False)
        (results, *more) = [*(self.root / ".cache").glob("bench-*-quick.json"), None]
        if done.returncode or results is None or len(more) > 1:
            raise SystemExit(f"scripts/bench: {name} --quick failed in {self.root} (exit code {done.returncode})")
        cases = json.loads(results.read_text(encoding="utf-8"))
        found = [Measurement.from_json(one) for case in cases.values() for one in case["measurements"]]
        return {one.name: one for one in found}


def checkout(root: Path, ref: str) -> tuple[Checkout, str]:
    """Returns ``ref`` of the repository at ``root``, ready to run, and its short name. It is kept for the next time.

    Its benchmarks are those of ``root``. Ends the command for a commit that is not there.
    """
    asked = subprocess.run(
        ["git", "rev-parse", "--short=12", f"{ref}^{{commit}}"], cwd=root, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise SystemExit(f"scripts/bench: --compare {ref}: there is no such commit")
    commit = asked.stdout.strip()
    there = root / ".cache" / "compare" / commit
    if not (there / ".git").exists():
        there.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(root), str(there)], check=True)
    subprocess.run(["git", "checkout", "-q", "--force", "--detach", commit], cwd=there, check=True)
    shutil.rmtree(there / "benchmarks", ignore_errors=True)
    shutil.copytree(root / "benchmarks", there / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([there / "scripts" / "setup"], cwd=there, check=True)
    return Checkout(there), commit


def run(root: Path, words: Sequence[str]) -> int:
    """Compares, prints a table, and returns 1 if something got slower."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("name", help="the benchmark")
    parser.add_argument("--compare", required=True, metavar="REF", help="the commit to compare the working tree with")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs (3)")
    parser.add_argument("--quick", action="store_true", help="always so here")
    parser.add_argument("--only", action="append", default=[], help="as the benchmark takes it")
    arguments = parser.parse_args(words)
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    other, commit = checkout(root, arguments.compare)
    sides = [Checkout(root), other]
    only = [word for case in arguments.only for word in ("--only", case)]
    found: list[list[Round]] = [[], []]
    for number_of_round in range(arguments.rounds):
        # Who runs first changes, as the machine may slow down while it runs.
        for side in (0, 1) if number_of_round % 2 == 0 else (1, 0):
            print(
                f"round {number_of_round + 1} of {arguments.rounds}: {(arguments.name, commit)[side]}", file=sys.stderr
            )
            found[side].append(sides[side].run(arguments.name, only))
    compared = compare(*found)
    print(as_table(compared, commit))
    one_sided = sorted(set(found[0][0]) ^ set(found[1][0]))
    if one_sided:
        print(f"\nMeasured on one side only: {', '.join(one_sided)}")
    slower = [one.name for one in compared if one.verdict == "slower"]
    print(f"\nSlower than {commit}: {', '.join(slower) or 'nothing'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(run(Path(__file__).resolve().parents[1], sys.argv[1:]))
