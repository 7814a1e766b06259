"""A small world in which everything that can happen is tried: every order of calls, and every fault at every call.

A depth-first search. A schedule is played again from its start for each choice that has not been tried, and is left as
soon as it comes to a state from which the search has gone on before. Time stands still meanwhile, and ids depend on who
asks for them, so two equivalent orders of calls lead to the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.testing.simulation._choices import EveryChoice
from penstock.testing.simulation._search import Failure, MakeTarget, Report
from penstock.testing.simulation._target import Violation
from penstock.testing.simulation._world import Plan, World

__all__ = ["Complete", "search_completely"]


@dataclass
class Complete:
    """What was tried. ``schedules`` were played, ``ends`` of them to their end, the others to a state known before.

    ``is_complete``: nothing is left to try.
    """

    states: int = 0
    schedules: int = 0
    ends: int = 0
    is_complete: bool = False
    failure: Failure | None = None
    report: Report = field(default_factory=Report)

    def __str__(self) -> str:
        """Returns one line."""
        whether = "all of them" if self.is_complete else "not all of them"
        return f"{self.states} states, {self.schedules} schedules, {self.ends} different ends; {whether}"


class _KnownState(Exception):
    pass


def search_completely(plan: Plan, make_target: MakeTarget, *, most_states: int | None = None) -> Complete:
    """Tries everything that can happen in the world of ``plan``, until something is violated, or so many states.

    ``plan.faults`` says how many faults there are in one schedule; how probable they are does not count.
    """
    found, known = Complete(), set[int]()
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        if most_states is not None and len(known) >= most_states:
            return found
        given = waiting.pop()
        choices = EveryChoice(given)
        world = World(choices, plan, make_target)
        world.scheduler.tick_us = 0
        check = world.scheduler.after_step

        def after_step() -> None:
            check()  # noqa: B023
            if len(choices.made) < len(given):  # noqa: B023
                return  # still the way to the choice that is new
            state = world.state()  # noqa: B023
            if state in known:
                raise _KnownState
            known.add(state)

        world.scheduler.after_step = after_step
        found.schedules += 1
        try:
            world.run()
            found.ends += 1
        except _KnownState:
            pass
        except Violation as violation:
            found.failure = Failure(-1, str(violation), choices.made, world.scheduler.trace)
            return found
        finally:
            found.states = len(known)
            found.report.add(world.scheduler, world.target.links())
        for at in range(len(given), len(choices.made)):
            waiting += [(*choices.made[:at], other) for other in range(1, choices.counts[at])]
    found.is_complete = True
    return found
