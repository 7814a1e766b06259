"""Rules of the commit protocol, each with what the code looks like without it: for tests that the simulator finds that.

A rule names a module, a text in it and what to put there. ``target`` is the world in which it counts, ``seed`` the
first seed that finds it (``python -m suite.broken_rules`` looks for them anew).
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any

from penstock.testing.simulation import Faults, Plan, run_schedule
from suite.simulated_targets import TARGETS

__all__ = ["RULES", "Rule", "broken", "violation"]


@dataclass(frozen=True)
class Rule:
    """``module`` without what ``there`` is good for. ``plan``: of the world; by default that of the seed."""

    name: str
    module: str
    there: str
    instead: str
    target: str = "two-phase"
    plan: Plan | None = None
    seed: int | None = None


_TWO_PHASE = "penstock._commit._two_phase"
_PUBLISHING = "penstock._commit._publishing"
_CHAIN = "penstock._commit._chain"
_AHEAD = "penstock.sink._write_ahead"
_FILES = "penstock_filesystem.sink._committer"
_KAFKA = "penstock_kafka.sink._committer"
_PRAVEGA = "penstock_pravega.sink._committer"

#: A driver that sleeps while another goes on, and little else.
_TWO_DRIVERS = Plan(
    rows=2,
    writers=1,
    second_drivers=1,
    rolls=0,
    finishes=0,
    takeovers=0,
    faults=Faults(crashes=0, late_calls=0, errors=0, switch=0.2, event=0.1),
)
#: One batch of many segments.
_MANY_SEGMENTS = Plan(
    rows=6, writers=1, rows_per_writer=6, rolls=0, finishes=0, takeovers=0, target_events=0, faults=Faults(switch=0.05)
)

RULES = [
    Rule(
        "a run claims the log before it touches what others have left",
        _TWO_PHASE,
        "        head = self._claim(head, keeps_generation=in_turn)\n",
        "        self._memory.run = head.link.run\n",
        seed=9,
    ),
    Rule(
        "a batch is decided only on the base that it was planned on",
        _TWO_PHASE,
        "            head = self._chain.head()\n            if head.link.base != planned.base:\n"
        "                raise displaced(self._chain, head.link)\n            if head.pending is not None:",
        "            head = self._chain.head()\n            if head.link.batch >= planned.batch_id:\n"
        "                raise displaced(self._chain, head.link)\n            if head.pending is not None:",
        seed=894,
    ),
    Rule(
        "a claim takes over the duty to publish what is pending",
        _TWO_PHASE,
        "for output in outputs) else head.pending",
        "for output in outputs) else None",
        seed=3,
    ),
    Rule(
        "an abort voids the batch by a link before it deletes",
        _TWO_PHASE,
        "            if self._chain.create(link):\n                if self._chain.is_in_order(link.number):\n"
        "                    self._after_abort",
        "            if True:\n                if True:\n                    self._after_abort",
        "two-phase with carried state",
        seed=323,
    ),
    Rule(
        "an abort touches nothing that was decided",
        _TWO_PHASE,
        "            if not is_ours or head.link.batch >= batch_id:\n                return\n",
        "",
        seed=981,
    ),
    Rule(
        "a batch is known by its offsets, not by its number",
        _TWO_PHASE,
        "            if head.matches(batch.fingerprint):",
        "            if True:",
        seed=1898,
    ),
    Rule(
        "a list that misses a chunk is asked for again",
        _FILES,
        "return there if all(there) else self._layout.confirmed(lambda: self._look_for(states))",
        "return there",
        "files on a disk",
        seed=3585,
    ),
    Rule(
        "look, then publish",
        _PUBLISHING,
        "            found = committer.look(committables)\n            if Found.LOST in found:",
        "            found = [Found.OPEN for _ in committables]\n            if Found.LOST in found:",
        seed=884,
    ),
    Rule(
        "only what is still pending is given up, and only by the owner",
        _TWO_PHASE,
        "        if head.pending != link.number or head.link.base != owner:\n"
        "            raise displaced(self._chain, head.link)\n        before",
        "        before",
        seed=2174,
    ),
    Rule(
        "a roll gives way to a batch that is not published",
        _TWO_PHASE,
        "            if link.kind is not LinkKind.ROLL:\n",
        "            if False:\n",
        "write-ahead",
        seed=209,
    ),
    Rule(
        "merges of what a roll has merged already do not count",
        _TWO_PHASE,
        "    live = {state.id for state in head.states}",
        "    return list(outputs), []\n    live = {state.id for state in head.states}",
        "two-phase with carried state",
        seed=38,
    ),
    Rule(
        "inputs of a roll stay while a plan may name them",
        _TWO_PHASE,
        "                    base=link.base,\n                    generation=",
        "                    base=link.base + 5,\n                    generation=",
        "two-phase with carried state",
        seed=292,
    ),
    Rule(
        "done is noted once it is true",
        _PUBLISHING,
        "            if not self._publish(committer, link, committables, owner):\n",
        "            self._chain.mark_done(link.number)\n"
        "            if not self._publish(committer, link, committables, owner):\n",
        seed=35,
    ),
    Rule(
        "done is noted for good before what tells of it is cleared away",
        _TWO_PHASE,
        "(ends or link.pending < link.base)",
        "False",
        "files on a disk",
        seed=4482,
    ),
    Rule(
        "whose link it is that was found is told by its id",
        _CHAIN,
        "            if found.id != link.id:",
        "            if True:",
        seed=80,
    ),
    Rule(
        "a number that is taken is lost",
        _CHAIN,
        "            if found.id != link.id:",
        "            if False:",
        seed=9,
    ),
    Rule(
        "giving up seals what could still be published",
        _PUBLISHING,
        "                committer.seal(first)\n",
        "                pass\n",
        "Kafka",
        replace(_TWO_DRIVERS, target_events=2),
        seed=1156,
    ),
    Rule(
        "whoever sends asks each time whether he is still the owner",
        _AHEAD,
        "                    self._context.check_owner()\n                    sender = sender",
        "                    sender = sender",
        "write-ahead",
        _MANY_SEGMENTS,
        seed=1797,
    ),
    Rule(
        "what was recorded as sent is not sent again",
        _AHEAD,
        "Found.COMMITTED if recorder.is_recorded(one) else Found.OPEN if one.id in there",
        "Found.OPEN if one.id in there",
        "write-ahead",
        _MANY_SEGMENTS,
        seed=2896,
    ),
    Rule(
        "records stay while the batch may be looked at",
        _AHEAD,
        "            recorder.forget(kept.base, named)",
        "            recorder.forget(kept.base + 5, ())",
        "write-ahead",
        replace(
            _MANY_SEGMENTS,
            rows=12,
            rows_per_writer=12,
            power_failures=1,
            faults=Faults(crashes=0, errors=0, late_calls=0, event=0.05),
        ),
        seed=2265,
    ),
    Rule(
        "a claim begins above every stamp that the run before may have used",
        _TWO_PHASE,
        "floor_us=head.link.ceiling_us, ceiling_us=_ceiling(head.link.ceiling_us)",
        "ceiling_us=_ceiling(head.link.ceiling_us)",
        "idempotent",
        seed=203,
    ),
    Rule(
        "stamps grow from batch to batch, whatever the clock does",
        _TWO_PHASE,
        "return max(system().now_us(), link.floor_us + 1)",
        "return 1_800_000_000_000_000",
        "idempotent",
        seed=0,
    ),
    Rule(
        "stamps stay below the ceiling, also once the clock was set forwards",
        _TWO_PHASE,
        "if _next_stamp(head.link) + TIMESTAMPS_PER_RUN > head.link.ceiling_us:",
        "if False:",
        "idempotent",
        seed=2233,
    ),
    Rule(
        "a new run uses ids of its own generation",
        _TWO_PHASE,
        "            if head.link.kind is not LinkKind.CLOSE and not keeps_generation:\n"
        "                link = replace(link, generation=link.number)",
        "            if head.link.generation < 0:\n                link = replace(link, generation=link.number)",
        "Kafka",
        replace(_TWO_DRIVERS, rows=4, writers=2, faults=Faults(crashes=2, late_calls=1, errors=0, crash=0.05)),
        seed=755,
    ),
    Rule(
        "ids that a pending decision names are not fenced",
        _KAFKA,
        "generation < kept.generation and transactional_id not in named",
        "True",
        "Kafka",
        replace(_TWO_DRIVERS, rows=4, writers=2, ends=1, faults=Faults(crashes=2, late_calls=1, errors=0, crash=0.05)),
        seed=755,
    ),
    Rule(
        "what earlier generations have left open is fenced",
        _KAFKA,
        "generation < kept.generation and transactional_id not in named",
        "generation < kept.generation - 1",
        "Kafka",
        seed=0,
    ),
    Rule(
        "what has failed for retryTimeout ends its process",
        "penstock.retry",
        "        if failures and left <= 0:\n",
        "        if False:\n",
        seed=348,
    ),
    Rule(
        "what coordinators remember of the last transaction is asked for",
        _KAFKA,
        "if _is_remembered(committable, state) or self._is_proven(committable, patience):",
        "if self._is_proven(committable, patience) and False:",
        "Kafka",
        seed=21,
    ),
    Rule(
        "what attempts have left open is found by the transaction log",
        _PRAVEGA,
        "        opened = self._transactions.read()",
        "        opened = []",
        "Pravega",
        seed=1,
    ),
    Rule(
        "a log entry is kept until its transaction is over",
        _PRAVEGA,
        "            if self._state(ref) is not TransactionState.OPEN:\n                return False\n",
        "            if self._state(ref) is TransactionState.OPEN:\n                return False\n",
        "Pravega",
        seed=0,
    ),
]


def _functions(module: ModuleType | dict[str, Any], name: str) -> Iterator[tuple[str, FunctionType]]:
    members = vars(module) if isinstance(module, ModuleType) else module
    for key, value in members.items():
        if isinstance(value, FunctionType) and value.__module__ == name:
            yield key, value
        elif isinstance(value, type) and value.__module__ == name:
            for inner, one in vars(value).items():
                plain = one.__func__ if isinstance(one, (staticmethod, classmethod)) else one
                if isinstance(plain, FunctionType):
                    yield f"{key}.{inner}", plain


@contextlib.contextmanager
def broken(rule: Rule) -> Iterator[None]:
    """The code without ``rule``, as long as it lasts. Raises ValueError if the rule's text is not there (any more)."""
    module = importlib.import_module(rule.module)
    source = inspect.getsource(module)
    if rule.there not in source:
        raise ValueError(f"{rule.name}: {rule.module} has changed, {rule.there!r} is not in it")
    other: dict[str, Any] = {"__name__": rule.module}
    exec(compile(source.replace(rule.there, rule.instead, 1), str(module.__file__), "exec"), other)
    real, replaced = dict(_functions(module, rule.module)), []
    for name, function in _functions(other, rule.module):
        if name in real and function.__code__ != real[name].__code__:
            replaced.append((real[name], real[name].__code__))
            real[name].__code__ = function.__code__
    assert replaced, f"{rule.name}: nothing has changed"
    try:
        yield
    finally:
        for function, code in replaced:
            function.__code__ = code


def violation(rule: Rule, seed: int) -> str:
    """What the schedule of ``seed`` violates in the world in which ``rule`` counts; empty if it does not."""
    try:
        failure = run_schedule(seed, TARGETS[rule.target], plan=rule.plan)
    except Exception as error:  # the simulator's own: something that can't be was read or asked for
        return f"{type(error).__name__}: {error}"
    return "" if failure is None else failure.violation


def _search(names: list[str]) -> None:
    import logging
    import time

    logging.disable(logging.CRITICAL)
    for rule in RULES:
        if names and not any(name in rule.name for name in names):
            continue
        began = time.monotonic()
        with broken(rule):
            for seed in range(10_000):
                failure = violation(rule, seed)
                if failure:
                    break
        found = f"seed {seed}: {failure[:110]}" if failure else "NOT FOUND"
        print(f"{rule.name} [{rule.target}]: {found}  {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    _search([name for name in sys.argv[1:] if not name.startswith("--")])
