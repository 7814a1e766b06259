"""What came of a run: shown, kept for the next one, and written down for readers of the repository."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutants.faults import Mutant
from mutants.run import Outcome
from mutants.survivors import Survivors

__all__ = ["RESULTS", "Last", "print_summary", "record"]

RESULTS = Path(__file__).with_name("results.json")


def print_summary(outcomes: Sequence[Outcome], known: Survivors) -> None:
    """Counts by operator, then the survivors."""
    killed: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for outcome in outcomes:
        operator = outcome.mutant.operator.partition("_")[0]
        count[operator] += 1
        killed[operator] += outcome.is_killed
    for operator, number in count.most_common():
        print(f"{operator:30} {killed[operator]:4} of {number:4} killed")
    survivors = [outcome.mutant for outcome in outcomes if not outcome.is_killed]
    for mutant in survivors:
        print(f"{mutant}\n    {known.reason(mutant) or 'NO REASON'}")
    listed_and_killed = [outcome.mutant for outcome in outcomes if outcome.is_killed and known.reason(outcome.mutant)]
    for mutant in listed_and_killed:
        print(f"listed as one that can't be noticed, and killed: {mutant}")
    percent = 100 * killed.total() / max(1, count.total())
    print(
        f"{killed.total()} of {count.total()} killed ({percent:.1f} %), "
        f"{sum(outcome.is_timed_out for outcome in outcomes)} of them by a time limit; of {len(survivors)} survivors "
        f"{sum(not known.reason(mutant) for mutant in survivors)} have no reason"
    )


class Last:
    """The outcomes of the last run of a scope, in ``.cache/mutants``. Those of files that have changed don't count."""

    def __init__(self, root: Path, scope: str) -> None:
        self._root = root
        self._path = root / ".cache" / "mutants" / f"{scope}.jsonl"
        self._outcomes: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._digests: dict[str, str] = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                one = json.loads(line)
                self._outcomes[one["file"], one["digest"], one["key"]] = one

    def _name(self, mutant: Mutant) -> tuple[str, str, str]:
        digest = self._digests.get(mutant.file)
        if digest is None:
            digest = hashlib.sha256((self._root / mutant.file).read_bytes()).hexdigest()[:16]
            self._digests[mutant.file] = digest
        return mutant.file, digest, mutant.key

    def survived(self, mutant: Mutant) -> bool:
        """Whether it is not known that something kills it."""
        found = self._outcomes.get(self._name(mutant))
        return found is None or found["killer"] is None

    def killed(self, mutants: Sequence[Mutant], but_for: Sequence[Outcome]) -> list[Outcome]:
        """What was killed before, but for what was tried since."""
        tried = {outcome.mutant for outcome in but_for}
        found = [(mutant, self._outcomes.get(self._name(mutant))) for mutant in mutants if mutant not in tried]
        return [
            Outcome(mutant, one["killer"], one["is_timed_out"], one["seconds"])
            for mutant, one in found
            if one is not None and one["killer"] is not None
        ]

    def add(self, outcome: Outcome) -> None:
        """Keeps it."""
        file, digest, key = self._name(outcome.mutant)
        one = {
            "file": file,
            "digest": digest,
            "key": key,
            "killer": outcome.killer,
            "is_timed_out": outcome.is_timed_out,
            "seconds": round(outcome.seconds, 2),
        }
        self._outcomes[file, digest, key] = one
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file_:
            file_.write(json.dumps(one) + "\n")


def record(root: Path, scope: str, outcomes: Sequence[Outcome], known: Survivors) -> None:
    """Into :data:`RESULTS`."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    killed = sum(outcome.is_killed for outcome in outcomes)
    found[scope] = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit.stdout.strip(),
        "mutants": len(outcomes),
        "killed": killed,
        "killed by a time limit": sum(outcome.is_timed_out for outcome in outcomes),
        "survive with a reason": sum(bool(not one.is_killed and known.reason(one.mutant)) for one in outcomes),
        "survive without": sum(not one.is_killed and not known.reason(one.mutant) for one in outcomes),
        "minutes": round(sum(outcome.seconds for outcome in outcomes) / 60),
    }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
