"""The decision log: whatever a query's sink has decided, as one numbered chain of links under its checkpoint.

``<checkpoint>/penstock/decisions/<number>.json`` is a link, ``<number>.done`` says that what it publishes is published.
A number is created only if it is absent, so that of two processes which both knew it to be free one gets it. Every link
holds all that counts after it, so older ones can be deleted.

This file knows how links are stored. What may follow what, and who may append it, is in ``_two_phase.py``.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.errors import BadDataError, FatalError
from penstock.serialization import Versioned, inflated, malformed_is_bad_data
from penstock.storage import Storage
from penstock.system import system

__all__ = ["BEFORE_ALL", "Chain", "Head", "Link", "LinkKind", "TaskOutput", "StateItem"]

FORMAT = 3
#: Links that are kept below the base and below what is pending.
KEEP = 32
_SHORTEN_EVERY = 16
#: Where a log is below its query's checkpoint.
_BELOW = re.compile("(/penstock/sinks/[^/]+)?/penstock/decisions$")


@dataclass(frozen=True)
class StateItem:
    """A piece of carried state with an id that is unique in the world."""

    id: str
    payload: Versioned

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object."""
        return {"id": self.id, **self.payload.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StateItem:
        """Returns the inverse of :meth:`to_json`."""
        return cls(value["id"], Versioned.from_json(value))


@dataclass(frozen=True)
class TaskOutput:
    """What one attempt contributed: a writer's rows, or a replacement of carried state (``consumed`` is not empty).

    It is the unit of deciding: all of it counts or none. ``writer`` is the writer's index, -1 for the driver.
    """

    writer: int
    attempt: str
    consumed: tuple[str, ...] = ()
    committables: tuple[Versioned, ...] = ()
    states: tuple[StateItem, ...] = ()
    sequences_used: int = 0

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object."""
        return {
            "writer": self.writer,
            "attempt": self.attempt,
            "consumed": list(self.consumed),
            "committables": [committable.to_json() for committable in self.committables],
            "states": [state.to_json() for state in self.states],
            "sequences_used": self.sequences_used,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TaskOutput:
        """Returns the inverse of :meth:`to_json`."""
        return cls(
            writer=value["writer"],
            attempt=value["attempt"],
            consumed=tuple(value["consumed"]),
            committables=tuple(Versioned.from_json(c) for c in value["committables"]),
            states=tuple(StateItem.from_json(s) for s in value["states"]),
            sequences_used=value["sequences_used"],
        )


class LinkKind(str, Enum):
    """What a link says."""

    CLAIM = "claim"  #: plans made before are void; the duty to carry out what is pending is taken over
    BATCH = "batch"  #: a micro-batch is decided
    LOST = "lost"  #: the pending link is given up
    ROLL = "roll"  #: carried state was replaced; the only kind that leaves the base where it is
    CLOSE = "close"  #: carried state was replaced, all of it, by the owner: the orderly end of a run


@dataclass(frozen=True)
class Link:
    """One link. What it does not change it copies from the link before.

    ``base`` is the number of the last link that is no roll: its own, if it is none. ``pending`` is the number of the
    link that is still to be carried out (its own, if it publishes something), unless its done mark is there.
    ``generation`` is the number of the claim that the run began with (see ``docs/protocol.md``). ``batch`` is the last
    batch that was decided (-1: none), ``fingerprint`` tells it from another of the same number (empty for one that the
    first edition decided), and ``offsets`` is Spark's own file of it. ``sequence`` is used up to there. ``floor_us``
    and ``ceiling_us`` bound write timestamps: those up to the floor may have been used, and no process uses one above
    the ceiling. ``targets`` says where rows go (see :func:`penstock.sink.targets_of`). ``engine_run`` is the engine's
    run that last came to the end of a write of ``batch``; empty for a log with one write in each batch.
    """

    number: int
    kind: LinkKind
    base: int
    generation: int = -1
    id: str = ""
    run: str = ""
    session: str = ""
    plan: str = ""
    time_ms: int = 0
    batch: int = -1
    fingerprint: str = ""
    offsets: bytes = b""
    states: tuple[StateItem, ...] = ()
    outputs: tuple[TaskOutput, ...] = ()
    pending: int | None = None
    sequence: int = 0
    writers: int = 1
    floor_us: int = 0
    ceiling_us: int = 0
    query: str = ""
    place: str = ""
    targets: dict[str, str] = field(default_factory=dict)
    engine_run: str = ""
    metrics: dict[str, int] = field(default_factory=dict)

    def matches(self, fingerprint: str) -> bool:
        """Returns whether ``batch`` was decided with offsets of that fingerprint. A link without one matches any."""
        return self.fingerprint in ("", fingerprint)

    def to_bytes(self) -> bytes:
        """Returns the stored form, JSON."""
        value = {
            **vars(self),
            "format": FORMAT,
            "kind": self.kind.value,
            "offsets": base64.b64encode(zlib.compress(self.offsets)).decode("ascii") if self.offsets else "",
            "states": [state.to_json() for state in self.states],
            "outputs": [output.to_json() for output in self.outputs],
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, done: bool, where: str) -> Link:
        """Reads the stored form of any released version. ``done`` counts for links of the first edition only.

        Raises BadDataError for anything else.
        """
        with malformed_is_bad_data(f"{where}, a link of the decision log,"):
            return cls._from_json(json.loads(data), done=done, where=where)

    @classmethod
    def _from_json(cls, value: dict[str, Any], *, done: bool, where: str) -> Link:
        stored = value.pop("format")
        if stored > FORMAT:
            raise FatalError(f"{where}: written by a newer penstock (format {stored}): upgrade this one")
        outputs = tuple(TaskOutput.from_json(output) for output in value.pop("outputs"))
        states = tuple(StateItem.from_json(state) for state in value.pop("states"))
        if stored == 1:
            return _from_first_edition(value, outputs, states, done=done, where=where)
        value["kind"] = LinkKind(value["kind"])
        if stored == 2:
            value["targets"] = {"": value.pop("target")}
        value["offsets"] = inflated(base64.b64decode(value["offsets"])) if value["offsets"] else b""
        link = cls(outputs=outputs, states=states, **value)
        link._check()
        return link

    def _check(self) -> None:
        """Raises TypeError or ValueError for what no link holds: readers rely on it."""
        for name in _NUMBERS:
            if type(getattr(self, name)) is not int:
                raise TypeError(f"{name} is no number: {getattr(self, name)!r}")
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is no text: {getattr(self, name)!r}")
        for name, number in self.metrics.items():
            if not isinstance(number, int | float):
                raise TypeError(f"{name} of metrics is no number: {number!r}")
        for name, text in self.targets.items():
            if not isinstance(text, str):
                raise TypeError(f"{name!r} of targets is no text: {text!r}")
        if self.pending is not None and type(self.pending) is not int:
            raise TypeError(f"pending is no number: {self.pending!r}")
        if self.batch < -1 or not 0 <= (self.pending or 0) <= self.number:
            raise ValueError(f"link {self.number} says of batch {self.batch} that {self.pending} is pending")

    def state_after(self, outputs: Iterable[TaskOutput]) -> tuple[StateItem, ...]:
        """This link's state with ``outputs`` applied."""
        outputs = list(outputs)
        consumed = {state_id for output in outputs for state_id in output.consumed}
        kept = [state for state in self.states if state.id not in consumed]
        return tuple(kept + [state for output in outputs for state in output.states])


def _from_first_edition(
    value: dict[str, Any], outputs: tuple[TaskOutput, ...], states: tuple[StateItem, ...], *, done: bool, where: str
) -> Link:
    if value["redo"]:
        raise FatalError(
            f"{where}: batch {value['last_batch']} is to be written again in part, which only the first edition of "
            "penstock does: run the query with that once more, until the batch is through"
        )
    stamp = value.get("write_timestamp_us", 0)
    number = value["number"]
    is_open = not done and any(output.committables for output in outputs)
    return Link(
        number=number,
        kind=LinkKind.BATCH if value["kind"] == "batch" else LinkKind.CLAIM,
        base=number,
        id=f"{value['driver']}-{number}",
        run=value["driver"],
        time_ms=value["time_ms"],
        batch=value["last_batch"],
        states=states,
        outputs=outputs,
        pending=number if is_open else None,
        sequence=value["sequence"],
        writers=value["writers"],
        floor_us=stamp,
        ceiling_us=stamp + 1_000_000,
        metrics=value["metrics"],
    )


#: Fields of a link by their type, except for those that are taken apart one by one.
_NUMBERS = ("number", "base", "generation", "time_ms", "batch", "sequence", "writers", "floor_us", "ceiling_us")
_TEXTS = ("id", "run", "session", "plan", "fingerprint", "query", "place", "engine_run")
#: Stands before the first link.
BEFORE_ALL = Link(number=-1, kind=LinkKind.CLAIM, base=-1)


@dataclass(frozen=True)
class Head:
    """The last link of a chain, and which links were carried out when it was looked at."""

    link: Link
    done: frozenset[int] = frozenset()

    @property
    def pending(self) -> int | None:
        """The number of the link that is to be carried out before anything but a claim follows; ``None``: nothing."""
        return self.link.pending if self.link.pending not in self.done else None


class Chain:
    """The chain of one query. Not thread-safe. Memory: the last link that this object wrote or read.

    The calls of its storage may be made again, by :meth:`Storage.retrying`: a link has an id, so that a second call
    recognizes what the first one has written after all.
    """

    def __init__(self, storage: Storage, directory: str) -> None:
        self.storage = storage
        self.directory = directory
        self._last: Link | None = None

    @property
    def checkpoint(self) -> str:
        """Returns the query's checkpoint, as commands take it."""
        return self.storage.url(_BELOW.sub("", self.directory))

    def _path(self, number: int, suffix: str = "json") -> str:
        return f"{self.directory}/{number:020d}.{suffix}"

    def _numbers(self) -> tuple[list[int], frozenset[int]]:
        names = self.storage.list_names(self.directory)
        links = sorted(int(name[:-5]) for name in names if name.endswith(".json") and is_number(name[:-5]))
        return links, frozenset(int(name[:-5]) for name in names if name.endswith(".done") and is_number(name[:-5]))

    def head(self) -> Head:
        """Returns the newest link, by one listing and, unless the link is known, one read."""
        numbers, done = self._numbers()
        if not numbers:
            return Head(BEFORE_ALL)
        return Head(self._get(numbers[-1], done), done)

    def links(self) -> list[Link]:
        """Returns every link that is kept, oldest first."""
        numbers, done = self._numbers()
        return [self._get(number, done) for number in numbers]

    def read(self, number: int) -> Link:
        """Returns a link that is known to be there; :data:`BEFORE_ALL` for -1."""
        return BEFORE_ALL if number < 0 else self._get(number, frozenset())

    def _get(self, number: int, done: frozenset[int]) -> Link:
        if self._last is not None and self._last.number == number:
            return self._last
        path = self._path(number)
        where, data = self.storage.url(path), self.storage.read(path)
        link = Link.from_bytes(data, done=number in done, where=where)
        if link.number != number:
            raise BadDataError(f"{where}, a link of the decision log, is damaged: it holds link {link.number}")
        self._last = link
        return link

    def create(self, link: Link) -> bool:
        """Returns whether ``link`` has its number: it is durable then. An error means that it may come to be there
        later.
        """
        path, data = self._path(link.number), link.to_bytes()
        if not self.storage.create(path, data):
            # An earlier try of this call may have met its own success.
            stored = self.storage.read(path)
            found = Link.from_bytes(stored, done=False, where=self.storage.url(path))
            if found.id != link.id:
                self._last = None
                return False
        self._last = link
        return True

    def is_in_order(self, number: int) -> bool:
        """Returns whether link ``number``, which was just created, is a part of the chain.

        A process that slept may create a link at a number that had been used and deleted. Links are deleted once they
        are more than 32 below the head. So if more than 32 links are above a new one, its number had been used: the new
        link is not part of the chain, and is deleted.
        """
        numbers, _ = self._numbers()
        if numbers and numbers[-1] >= number + KEEP:
            self._last = None
            self.storage.delete([self._path(number)])
            return False
        return True

    def has_not_ended_before(self, number: int, base: int) -> bool:
        """Returns whether link ``number``, which was just created, stands on ``base``, in the log of a batch write.

        The process that ends a batch write deletes its log: the oldest links first, the marks last. So a link without
        its base was in the log if it is gone as well, or marked as done. Otherwise it was created where a log had been,
        and is deleted.
        """
        numbers, done = self._numbers()
        if base in numbers or number not in numbers or number in done:
            return True
        self._last = None
        self.storage.delete([self._path(number)])
        return False

    def delete(self) -> None:
        """The whole log, of a batch write that has ended."""
        numbers, done = self._numbers()
        for number in numbers:  # a store deletes what it gets in one call in any order
            self.storage.delete([self._path(number)])
        self.storage.delete(self._path(number, "done") for number in sorted(done))
        self.storage.remove_empty(self.directory)

    def forget(self) -> None:
        """Drops cached links, so that they are read again."""
        self._last = None

    def mark_done(self, number: int, *, durable: bool = False) -> None:
        """Marks a link as carried out. A process that misses the mark looks at what is published and marks it again."""
        self.storage.put(self._path(number, "done"), b"", durable=durable)

    def shorten(self, head: Head) -> None:
        """Deletes links that are no longer needed, and what killed processes left. Does so at every 16th link."""
        if head.link.number % _SHORTEN_EVERY:
            return
        self.storage.sweep(self.directory)
        up_to = min(head.link.base, head.link.number if head.pending is None else head.pending) - KEEP
        numbers, done = self._numbers()
        old = [number for number in numbers if number < up_to]
        marks = [number for number in sorted(done) if number < up_to]
        self.storage.delete(
            [*(self._path(number) for number in old), *(self._path(number, "done") for number in marks)]
        )


def is_number(name: str) -> bool:
    """Returns whether a file's name is a number, in the digits that are written here and by Spark."""
    return name.isascii() and name.isdecimal()


def now_ms() -> int:
    """Returns the time for a link."""
    return system().now_us() // 1000


def committables_of(outputs: Sequence[TaskOutput]) -> list[Versioned]:
    """Returns all of them, in order."""
    return [committable for output in outputs for committable in output.committables]
