"""The decision log: what was decided, in one numbered chain of files under the query's checkpoint.

``<checkpoint>/penstock/decisions/<number>.json`` holds a decision; ``<number>.done`` says that it was carried out.
A number is written once (an atomic put-if-absent), so of two drivers only one can write it. A decision is appended only
after the one before it is done: at most the last one is pending. Every decision holds the whole carried state after it,
so older ones can be deleted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import FatalError
from penstock.serialization import Versioned
from penstock.storage import Storage

__all__ = ["Decision", "DecisionLog", "Output", "StateItem"]

FORMAT = 1
#: Decisions kept. A driver that slept through so many is told by it that it is a zombie (see :meth:`append`).
KEEP = 32
_PURGE_SLACK = 16


@dataclass(frozen=True)
class StateItem:
    """A piece of carried state with an id that is unique in the world."""

    id: str
    payload: Versioned

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"id": self.id, **self.payload.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StateItem:
        """The inverse of :meth:`to_json`."""
        return cls(value["id"], Versioned.from_json(value))


@dataclass(frozen=True)
class Output:
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
        """A JSON object."""
        return {
            "writer": self.writer,
            "attempt": self.attempt,
            "consumed": list(self.consumed),
            "committables": [committable.to_json() for committable in self.committables],
            "states": [state.to_json() for state in self.states],
            "sequences_used": self.sequences_used,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Output:
        """The inverse of :meth:`to_json`."""
        return cls(
            writer=value["writer"],
            attempt=value["attempt"],
            consumed=tuple(value["consumed"]),
            committables=tuple(Versioned.from_json(c) for c in value["committables"]),
            states=tuple(StateItem.from_json(s) for s in value["states"]),
            sequences_used=value["sequences_used"],
        )


@dataclass(frozen=True)
class Decision:
    """One link of the chain.

    ``kind`` is ``batch`` (a micro-batch), ``roll`` (carried state was replaced between batches), ``plan`` (a write
    timestamp was handed out) or ``withdrawal`` (the decision before could not be carried out). ``last_batch`` is the
    highest batch decided so far (-1: none); ``redo`` lists the writers whose share of ``last_batch`` has to be written
    again. ``writers`` is the number of writers of the last batch, a guess for the next one. ``metrics`` holds the
    batch's counters (``rows_written``, ``bytes_written``…).
    ``write_timestamp_us`` is the greatest that was handed out.
    """

    number: int
    kind: str
    last_batch: int
    outputs: tuple[Output, ...] = ()
    states: tuple[StateItem, ...] = ()
    sequence: int = 0
    writers: int = 1
    redo: tuple[int, ...] = ()
    driver: str = ""
    time_ms: int = 0
    metrics: dict[str, int] = field(default_factory=dict)
    write_timestamp_us: int = 0
    done: bool = False

    def to_bytes(self) -> bytes:
        """The stored form, JSON."""
        value = {
            "format": FORMAT,
            "number": self.number,
            "kind": self.kind,
            "last_batch": self.last_batch,
            "outputs": [output.to_json() for output in self.outputs],
            "states": [state.to_json() for state in self.states],
            "sequence": self.sequence,
            "writers": self.writers,
            "redo": list(self.redo),
            "driver": self.driver,
            "time_ms": self.time_ms,
            "metrics": self.metrics,
            "write_timestamp_us": self.write_timestamp_us,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, done: bool, where: str) -> Decision:
        """From the stored form of any released version."""
        value = json.loads(data)
        if value["format"] > FORMAT:
            raise FatalError(f"{where}: written by a newer penstock (format {value['format']}): upgrade this one")
        return cls(
            number=value["number"],
            kind=value["kind"],
            last_batch=value["last_batch"],
            outputs=tuple(Output.from_json(output) for output in value["outputs"]),
            states=tuple(StateItem.from_json(state) for state in value["states"]),
            sequence=value["sequence"],
            writers=value["writers"],
            redo=tuple(value["redo"]),
            driver=value["driver"],
            time_ms=value["time_ms"],
            metrics=value["metrics"],
            write_timestamp_us=value.get("write_timestamp_us", 0),  # since 0.2
            done=done,
        )

    def state_after(self, outputs: Iterable[Output]) -> tuple[StateItem, ...]:
        """This decision's state with ``outputs`` applied."""
        outputs = list(outputs)
        consumed = {state_id for output in outputs for state_id in output.consumed}
        kept = [state for state in self.states if state.id not in consumed]
        return tuple(kept + [state for output in outputs for state in output.states])


#: The state of a query that has decided nothing yet.
NOTHING_DECIDED = Decision(number=-1, kind="batch", last_batch=-1, done=True)


class DecisionLog:
    """The chain of one query. Every call reads the store anew: another process may have written meanwhile."""

    def __init__(self, storage: Storage, checkpoint: str) -> None:
        self.storage = storage
        self.directory = f"{checkpoint}/penstock/decisions"

    def _path(self, number: int, suffix: str = "json") -> str:
        return f"{self.directory}/{number:020d}.{suffix}"

    def _numbers(self) -> tuple[list[int], set[int]]:
        names = self.storage.list_names(self.directory)
        decided = sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())
        done = {int(name[:-5]) for name in names if name.endswith(".done") and name[:-5].isdigit()}
        return decided, done

    def _read(self, number: int, done: set[int]) -> Decision:
        path = self._path(number)
        data = self.storage.read(path)
        return Decision.from_bytes(data, done=number in done, where=self.storage.url(path))

    def head(self) -> Decision:
        """The last decision, :data:`NOTHING_DECIDED` for an empty log."""
        decided, done = self._numbers()
        return self._read(decided[-1], done) if decided else NOTHING_DECIDED

    def entries(self) -> list[Decision]:
        """Every decision that is kept, oldest first."""
        decided, done = self._numbers()
        return [self._read(number, done) for number in decided]

    def before(self, decision: Decision) -> Decision:
        """The decision that ``decision`` followed."""
        return self._read(decision.number - 1, {decision.number - 1}) if decision.number else NOTHING_DECIDED

    def append(self, decision: Decision) -> bool:
        """Makes ``decision`` durable as its number. False if that number is taken: read the head and think again.

        Raises :class:`FatalError` if the log has moved on so far that the number had been deleted: this driver slept
        while another one carried the query on.
        """
        path = self._path(decision.number)
        if not self.storage.put_if_absent(path, replace(decision, time_ms=time.time_ns() // 1_000_000).to_bytes()):
            return False
        decided, _ = self._numbers()
        if decided[-1] >= decision.number + KEEP:
            self.storage.delete([path])
            raise FatalError(f"{self.directory}: another driver has carried this query on; this one must stop")
        return True

    def mark_done(self, decision: Decision) -> None:
        """Notes that ``decision`` was carried out, and deletes decisions that are too old to matter."""
        self.storage.put(self._path(decision.number, "done"), b"")
        if decision.number % _PURGE_SLACK == 0:
            self._purge(decision.number - KEEP)

    def _purge(self, up_to: int) -> None:
        decided, done = self._numbers()
        old: Sequence[int] = [number for number in decided if number < up_to]
        self.storage.delete(self._path(number) for number in old)
        self.storage.delete(self._path(number, "done") for number in done if number < up_to)
