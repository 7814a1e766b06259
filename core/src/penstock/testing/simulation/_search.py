"""Many random schedules; and of one that fails the shortest that still does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from penstock._commit import Link
from penstock.testing.simulation._choices import Choices, PlayedChoices, SeededChoices
from penstock.testing.simulation._scheduler import Faults, Scheduler
from penstock.testing.simulation._target import SimulatedTarget, Violation
from penstock.testing.simulation._world import Plan, World

__all__ = ["Failure", "MakeTarget", "Report", "plan_of", "run_schedule", "search", "shortest", "shrink"]

#: Makes the target of one schedule.
MakeTarget = Callable[[Scheduler], SimulatedTarget]
_MOST_TRIES = 600


@dataclass
class Failure:
    """A schedule under which something goes wrong. ``choices`` plays it again."""

    seed: int
    violation: str
    choices: list[int]
    trace: list[tuple[str, str, str]]

    def __str__(self) -> str:
        """Returns a text for people: who did what, in order."""
        width = max((len(who) for who, _, _ in self.trace), default=0)
        lines = [f"  {who:{width}}  {what} {how}".rstrip() for who, what, how in self.trace]
        return "\n".join([f"seed {self.seed}: {self.violation}", *lines])


@dataclass
class Report:
    """What a search has covered. ``calls`` counts what was called, by the first word of its label; ``ends`` how calls
    have ended, ``links`` the kinds of links.
    """

    schedules: int = 0
    steps: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    links: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, scheduler: Scheduler, links: Iterable[Link]) -> None:
        """Counts one more schedule, which ``scheduler`` ran and which left ``links``."""
        self.schedules += 1
        self.steps += len(scheduler.trace)
        self.calls.update(scheduler.calls)
        self.ends.update(scheduler.counts)
        self.links.update(link.kind.value for link in links)

    def __add__(self, other: Report) -> Report:
        """Returns what both have covered."""
        return Report(
            self.schedules + other.schedules,
            self.steps + other.steps,
            self.calls + other.calls,
            self.ends + other.ends,
            self.links + other.links,
            self.failures + other.failures,
        )

    def __str__(self) -> str:
        """Returns a few lines."""
        counts = {"calls": self.calls, "calls ended": self.ends, "links": self.links}
        lines = [
            f"{name}: {', '.join(f'{count} {kind}' for kind, count in counted.most_common())}"
            for name, counted in counts.items()
        ]
        return "\n".join([f"{self.schedules} schedules, {self.steps} steps", *lines])


def plan_of(seed: int) -> Plan:
    """Returns what may happen in the world of a seed: from quiet ones to those in which everything goes wrong."""
    chance = random.Random(seed ^ 0x5EED)
    faults = Faults(
        crashes=chance.choice([0, 1, 1, 2, 3]),
        crash=chance.choice([0.01, 0.03, 0.1]),
        late_calls=chance.choice([0, 0, 1, 2]),
        late=chance.choice([0.01, 0.05]),
        errors=chance.choice([0, 1]),
        error=0.03,
        switch=chance.choice([0.05, 0.2, 0.5]),
        event=chance.choice([0, 0.01, 0.05]),
    )
    plan = Plan(
        rows=chance.choice([2, 4, 6]),
        writers=chance.choice([1, 2]),
        rows_per_writer=chance.choice([1, 1, 3]),
        second_drivers=chance.choice([0, 1, 1, 2]),
        rolls=chance.choice([0, 2]),
        finishes=chance.choice([0, 1]),
        takeovers=chance.choice([0, 1]),
        target_events=chance.choice([0, 1, 2]),
        slow_clocks_s=chance.choice([0, 30]),
        power_failures=chance.choice([0, 0, 1]),
        ends=chance.choice([0, 0, 1, 2]),
        rewinds=chance.choice([0, 0, 1]),
        clock_jumps=chance.choice([0, 0, 0, 1]),
        faults=faults,
        retry_s=0.0 if seed % 2 else 60.0,
    )
    if seed % 16 in (12, 15):  # with and without retries; the others' schedules are what they were before outages
        faults.outages, faults.outage = chance.choice([1, 2]), chance.choice([0.01, 0.05])
    return plan


def run_schedule(
    seed: int,
    make_target: MakeTarget,
    choices: Choices | None = None,
    report: Report | None = None,
    *,
    plan: Plan | None = None,
) -> Failure | None:
    """Runs one schedule to its end: what it violates, if it does. ``plan`` is by default that of the seed."""
    choices = choices or SeededChoices(seed)
    world = World(choices, plan or plan_of(seed), make_target)
    try:
        world.run()
    except Violation as violation:
        return Failure(seed, str(violation), choices.made, world.scheduler.trace)
    finally:
        if report is not None:
            report.add(world.scheduler, world.target.links())
    return None


def search(seeds: Iterable[int], make_target: MakeTarget, *, most_failures: int = 1, in_batch: bool = False) -> Report:
    """Runs the schedules of ``seeds``, until so many have failed. Failures are shrunk. ``in_batch``: a batch function
    writes, with :func:`penstock.batch_writer`.
    """
    report = Report()
    for seed in seeds:
        plan = replace(plan_of(seed), in_batch=in_batch)
        failure = run_schedule(seed, make_target, report=report, plan=plan)
        if failure is not None:
            report.failures.append(shrink(failure, make_target, plan=plan))
            if len(report.failures) >= most_failures:
                break
    return report


def shrink(failure: Failure, make_target: MakeTarget, *, plan: Plan | None = None) -> Failure:
    """Returns the shortest schedule found that still fails. ``plan`` is by default that of the seed."""
    return shortest(failure, lambda choices: run_schedule(failure.seed, make_target, choices, plan=plan))


def shortest(failure: Failure, run: Callable[[Choices], Failure | None]) -> Failure:
    """Returns the shortest schedule found that still fails: choices are set to 0, in which nothing goes wrong, or left
    out. ``run`` runs a schedule of the same world.
    """
    best, tries = failure, 0

    def fails(choices: Sequence[int]) -> bool:
        nonlocal best, tries
        tries += 1
        found = run(PlayedChoices(choices))
        if found is None:
            return False
        found.choices = _without_zeros_at_the_end(found.choices)
        if len(found.trace) > len(best.trace):
            return False
        best = found
        return True

    best.choices = _without_zeros_at_the_end(best.choices)
    size = max(1, len(best.choices) // 2)
    while size and tries < _MOST_TRIES:
        at = 0
        while at < len(best.choices) and tries < _MOST_TRIES:
            given = best.choices
            part = given[at : at + size]
            if any(part) and fails([*given[:at], *[0] * len(part), *given[at + size :]]):
                continue
            if not fails([*given[:at], *given[at + size :]]):
                at += size
        size //= 2
    return best


def _without_zeros_at_the_end(choices: Sequence[int]) -> list[int]:
    made = list(choices)
    while made and made[-1] == 0:
        made.pop()
    return made
