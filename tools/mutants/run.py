"""Every mutant in its turn, some at a time."""

from __future__ import annotations

import select
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.faults import Mutant
from mutants.scopes import Scope
from mutants.trial import Limits, Trial, load

__all__ = ["Outcome", "run"]

#: So many of the tests that have killed mutants of a function come first when the next one is tried.
_REMEMBERED = 8


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant. ``killer`` is the test that has noticed it, ``""`` if it did not come to a test."""

    mutant: Mutant
    killer: str | None
    is_timed_out: bool
    seconds: float

    @property
    def is_killed(self) -> bool:
        """Whether anything has noticed it."""
        return self.killer is not None


def run(
    root: Path, scope: Scope, mutants: Sequence[Mutant], processes: int, on_outcome: Callable[[Outcome], None]
) -> list[Outcome]:
    """Tries them, ``processes`` at a time. Raises SystemExit if the tests fail without a fault."""
    if not mutants:
        return []
    load()
    limits = _baseline(root, scope)
    killers: dict[str, list[str]] = defaultdict(list)
    waiting, running, outcomes = list(mutants), dict[int, tuple[Mutant, Trial, float]](), list[Outcome]()
    while waiting or running:
        while waiting and len(running) < processes:
            mutant = waiting.pop(0)
            mutated = (mutant.file, mutant.source)
            trial = Trial(root, scope.tests, mutated=mutated, first=killers[mutant.function], limits=limits)
            running[trial.pipe] = (mutant, trial, time.monotonic())
        _wait([trial for _, trial, _ in running.values()])
        for pipe, (mutant, trial, began) in list(running.items()):
            if not trial.is_over:
                continue
            del running[pipe]
            outcome = Outcome(mutant, trial.killer, trial.is_timed_out, time.monotonic() - began)
            outcomes.append(outcome)
            on_outcome(outcome)
            _say_how_far(len(outcomes), len(mutants))
            if trial.killer:
                first = killers[mutant.function]
                killers[mutant.function] = [trial.killer, *(one for one in first if one != trial.killer)][:_REMEMBERED]
    return outcomes


def _wait(trials: Sequence[Trial]) -> None:
    by_pipe = {trial.pipe: trial for trial in trials}
    readable, _, _ = select.select(list(by_pipe), [], [], min(trial.remaining_s for trial in trials))
    for pipe in readable:
        by_pipe[pipe].on_readable()
    for trial in trials:
        if not trial.is_over and not trial.remaining_s:
            trial.time_out()


def _baseline(root: Path, scope: Scope) -> Limits:
    trial = Trial(root, scope.tests)
    while not trial.is_over:
        _wait([trial])
    if trial.killer is not None:
        raise SystemExit(f"the tests fail without any fault: {trial.killer or 'none of them begins'}")
    print(f"{len(trial.seconds) - 1} tests pass without a fault, in {sum(trial.seconds.values()):.0f} s", flush=True)
    return Limits(trial.seconds)


def _say_how_far(done: int, of: int) -> None:
    if sys.stderr.isatty() or done % 50 == 0 or done == of:
        end = "\r" if sys.stderr.isatty() and done < of else "\n"
        print(f"{done} of {of}", end=end, file=sys.stderr, flush=True)
