"""Every mutant in its turn, some at a time."""

from __future__ import annotations

import contextlib
import importlib
import select
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mutants.faults import Mutant
from mutants.trial import Limits, Trial

__all__ = ["Outcome", "run"]

#: So many tests are remembered for each function.
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


class Stage:
    """Some of the tests of a scope. Raises SystemExit if they fail without a fault."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.tests = tests
        self.killers: dict[str, list[str]] = defaultdict(list)
        trial = Trial(tests)
        while not trial.is_over:
            _wait([trial])
        if trial.killer is not None:
            what = f"{trial.killer or 'none of them begins'} {trial.trespass}".strip()
            raise SystemExit(f"the tests fail without any fault: {what}")
        self.limits = Limits(trial.seconds)
        for name in trial.imported:  # once, instead of in every trial
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        print(f"{len(trial.seconds) - 1} tests, {sum(trial.seconds.values()):.0f} s without a fault", flush=True)

    def trial(self, mutant: Mutant) -> Trial:
        """Begins one."""
        first = self.killers[mutant.function]
        return Trial(self.tests, mutated=(mutant.file, mutant.source), first=first, limits=self.limits)

    def note(self, mutant: Mutant, killer: str) -> None:
        """A test that has killed one of a function is the first when the next one is tried."""
        first = [one for one in self.killers[mutant.function] if one != killer]
        self.killers[mutant.function] = [killer, *first][:_REMEMBERED]


def run(
    stages: Sequence[Sequence[str]],
    mutants: Sequence[Mutant],
    processes: int,
    on_outcome: Callable[[Outcome], None],
) -> list[Outcome]:
    """Tries them, ``processes`` at a time; each stage of the tests on what those before it have left."""
    left, outcomes = list(mutants), list[Outcome]()
    for number, tests in enumerate(stages, 1):
        found = _try_all(Stage(tests), left, processes) if left else iter(())
        left = []
        for outcome in found:
            if outcome.is_killed or number == len(stages):
                outcomes.append(outcome)
                on_outcome(outcome)
            else:
                left.append(outcome.mutant)
    return outcomes


def _try_all(stage: Stage, mutants: Sequence[Mutant], processes: int) -> Iterator[Outcome]:
    waiting, running, done = list(mutants), dict[int, tuple[Mutant, Trial, float]](), 0
    while waiting or running:
        while waiting and len(running) < processes:
            mutant = waiting.pop(0)
            trial = stage.trial(mutant)
            running[trial.pipe] = (mutant, trial, time.monotonic())
        _wait([trial for _, trial, _ in running.values()])
        for pipe, (mutant, trial, began) in list(running.items()):
            if trial.is_over:
                del running[pipe]
                done += 1
                _say_how_far(done, len(mutants))
                if trial.killer:
                    stage.note(mutant, trial.killer)
                yield Outcome(mutant, trial.killer, trial.is_timed_out, time.monotonic() - began)


def _wait(trials: Sequence[Trial]) -> None:
    by_pipe = {trial.pipe: trial for trial in trials}
    readable, _, _ = select.select(list(by_pipe), [], [], min(trial.remaining_s for trial in trials))
    for pipe in readable:
        by_pipe[pipe].on_readable()
    for trial in trials:
        if not trial.is_over and not trial.remaining_s:
            trial.time_out()


def _say_how_far(done: int, of: int) -> None:
    if sys.stderr.isatty() or done % 50 == 0 or done == of:
        end = "\r" if sys.stderr.isatty() and done < of else "\n"
        print(f"{done} of {of}", end=end, file=sys.stderr, flush=True)
