"""A query of long standing, with a scripted sink and store: for tests of the driver's side of the commit protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa

from penstock._commit import (
    Batch,
    BatchPlan,
    Chain,
    Link,
    LinkKind,
    PlannedBatch,
    RunMemory,
    TaskOutput,
    TaskResult,
    TwoPhaseCommit,
)
from penstock.sink import Found, SinkContext, StateReplacement
from suite.scripted_sink import ScriptedSink, ScriptedStorage, ScriptedSystem, copied, item, output

__all__ = ["DIRECTORY", "HEAD", "OTHERS", "PLANNED", "ROLL", "SCHEMA", "ScriptedLog", "fail", "followed", "result"]

DIRECTORY = "/ck/penstock/decisions"
#: Runs that are not ours: before and behind it in the alphabet.
OTHERS = ["a run", "z run"]
#: The last link that was decided.
HEAD = Link(
    number=1000,
    kind=LinkKind.BATCH,
    base=1000,
    generation=900,
    id="the head",
    run="m run",
    session="m session",
    plan="the plan before",
    time_ms=7,
    batch=500,
    fingerprint=Batch(500, b"offsets 500").fingerprint,
    offsets=b"offsets 500",
    states=(item("one"), item("two")),
    outputs=(output(committables=["older"]),),
    sequence=7000,
    writers=3,
    floor_us=1_800_000_001_000_000,
    ceiling_us=1_800_000_009_000_000,
    query="q",
    targets={"": "/out"},
    metrics={"rows": 3},
)
#: The batch that comes next.
PLANNED = PlannedBatch("q", "m run", "the plan", 1000, 1000, 900, 501, "fingerprint 501", is_decided=False)
#: For :meth:`ScriptedLog.appends`.
ROLL: dict[str, Any] = {"kind": LinkKind.ROLL, "base": 1000}
SCHEMA = pa.schema([])


class ScriptedLog:
    """A chain, a sink, and what Spark has planned. Each call of the protocol is made as by a process of its own."""

    def __init__(self) -> None:
        self.storage, self.sink = ScriptedStorage(), ScriptedSink()
        self.memory, self.session = RunMemory(run="m run"), "m session"
        self.engine = {500: b"offsets 500", 501: b"offsets 501"}
        self.expected: list[int | None] = []
        self.claimed = 0
        self.results: list[TaskResult] = []

    @property
    def chain(self) -> Chain:
        """Knows nothing of what was read before."""
        return Chain(self.storage, DIRECTORY)

    @property
    def protocol(self) -> TwoPhaseCommit:
        """Of a process that remembers ``memory``."""
        context = SinkContext("q", SCHEMA)
        return TwoPhaseCommit(
            self.sink, context, self.chain, self.memory, session=copied(self.session), before_claim=self._count
        )

    def _count(self) -> None:
        self.claimed += 1

    def plan(self) -> BatchPlan:
        """Plans the last batch of ``engine``."""
        return self.protocol.plan(self)

    # What was before.

    def have(self, *links: Link) -> ScriptedLog:
        """These are in the chain."""
        for link in links:
            assert self.chain.create(link)
        self.storage.asked.clear()
        return self

    def lose(self) -> ScriptedLog:
        """A batch is decided, and lost before anything of it was published."""
        self.sink.found = {"older": Found.LOST}
        return self.have(
            replace(HEAD, number=998, base=998, batch=498, fingerprint="498", states=(item("older"),)),
            replace(HEAD, number=999, base=999, batch=499, fingerprint="499", states=(item("before"),)),
            replace(HEAD, pending=1000),
        )

    def remember(self, batch: int = 500, plan: str = "the plan before", base: int = 900) -> None:
        """The run that plans has planned this one last."""
        self.memory = copied(RunMemory("m run", batch, plan, base))

    def rolls(
        self,
        committables: tuple[str, ...] = ("merged",),
        states: tuple[str, ...] = (),
        consumed: tuple[int, ...] = (0, 1),
    ) -> None:
        """A roller makes these, and uses five numbers for it."""
        self.sink.rolled = [StateReplacement(list(consumed), list(committables), list(states), 5)]

    # What happens meanwhile.

    def before_create(self, *happenings: Callable[[], object]) -> None:
        """Before the next link is created, and the one after that, and so on."""
        self.storage.before["create"] = list(happenings)

    def appends(self, **changes: Any) -> Callable[[], None]:
        """Somebody else appends a link to what is there now."""
        head = self.head
        link = replace(head, **{"number": head.number + 1, "base": head.number + 1, "id": "another's", **changes})

        def append() -> None:
            self.storage.files[f"{DIRECTORY}/{link.number:020d}.json"] = link.to_bytes()

        return append

    # What came of it.

    @property
    def links(self) -> list[Link]:
        """All of them."""
        return self.chain.links()

    @property
    def head(self) -> Link:
        """The last one."""
        return self.chain.head().link

    @property
    def appended(self) -> list[Link]:
        """Those behind :data:`HEAD`."""
        return [link for link in self.links if link.number > HEAD.number]

    def is_done(self, number: int) -> bool:
        """Whether a link is marked."""
        return f"{DIRECTORY}/{number:020d}.done" in self.storage.files

    # Spark's own log.

    def planned(self, expected: int | None) -> Batch:
        """See :class:`penstock._commit._two_phase.EngineLog`."""
        self.expected.append(expected)
        return Batch(max(self.engine), self.engine[max(self.engine)])

    def find(self, number: int) -> Batch | None:
        """See :class:`penstock._commit._two_phase.EngineLog`."""
        return Batch(number, self.engine[number]) if number in self.engine else None


def followed(
    number: int, kind: LinkKind, system: ScriptedSystem, before: Link = HEAD, ids: int = 1, **changes: Any
) -> Link:
    """The link that is expected behind ``before``; ``ids`` is how many were taken until it had its own."""
    expected = {
        "number": number,
        "kind": kind,
        "base": number,
        "id": f"id {ids}",
        "time_ms": system.us // 1000,
        "offsets": b"",
        "outputs": (),
        "metrics": {},
    }
    return replace(before, **{**expected, **changes})


def result(
    *outputs: TaskOutput,
    planned: PlannedBatch = PLANNED,
    writer: int = 0,
    offsets: bytes = b"",
    metrics: dict[str, int] | None = None,
) -> TaskResult:
    """What an attempt has sent to the driver."""
    return copied(TaskResult(writer, f"attempt {writer}", planned, outputs, offsets, metrics or {}))


def fail(error: BaseException) -> NoReturn:
    """Raises it."""
    raise error
