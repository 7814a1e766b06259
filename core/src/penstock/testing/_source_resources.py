"""The cases of a source about what it leaves open, and what it writes down."""

from __future__ import annotations

import itertools
import json
from typing import Any, ClassVar

from penstock.connector import Capability
from penstock.serialization import Versioned
from penstock.testing._capabilities import proves
from penstock.testing._memory import growth_of_batches
from penstock.testing._origin import SourceOrigin
from penstock.testing._processes import processes
from penstock.testing._source_base import SourceBase
from penstock.testing._source_engine import SourceQuery
from penstock.testing._source_processes import SourceJob, read_many
from penstock.testing._stored import problems_in
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SourceResourceCases"]

_WARM_UP, _MORE = 5, 20
#: More than are compared.
_BATCHES = 400


class SourceResourceCases(SourceBase):
    """What a query holds. ``settles_s``: how long a client keeps what it has done, such as timers of requests that were
    answered, in seconds.
    """

    settles_s: ClassVar[float] = 0.0

    @proves(Capability.STREAM_READ)
    def test_splits_and_state_can_be_stored(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: offsets hold the state and the splits, as versioned bytes.

        Steps: the splits of a batch, and the state after it, are packed, unpacked and packed again.
        Pass: they are equal, and so are the bytes; a split has an id, a size and a group, and can be hashed.
        If it fails: make splits and state frozen dataclasses, and serialize field by field, sets in an order.
        """
        origin.put(range(5))
        splits = [split for task in query.tasks(self._plan(query)) for split in task]
        assert splits
        serializer = query.source.split_serializer
        for split in splits:
            again = serializer.deserialize(serializer.version, serializer.serialize(split))
            assert again == split and hash(again) == hash(split)
            assert serializer.serialize(again) == serializer.serialize(split)
            assert isinstance(split.split_id, str) and split.size_bytes >= 0 and isinstance(split.group, str)
        names = [split.split_id for split in splits]
        assert len(set(names)) == len(names), f"several splits have one id: {names}"
        state = self._state(query)
        serializer = query.source.enumerator_serializer
        again = serializer.deserialize(serializer.version, serializer.serialize(state))
        assert again == state, f"the state was {state!r}, and is {again!r} when it was stored and read"
        assert serializer.serialize(again) == serializer.serialize(state)

    @staticmethod
    def _state(query: SourceQuery) -> Any:
        """Returns the state in the last offset."""
        stored = Versioned.from_json(json.loads(query.offsets[-1])["enumerator"])
        return query.source.enumerator_serializer.unpack(stored)

    @proves(Capability.STREAM_READ)
    def test_what_is_stored_is_plain(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: offsets are read by other versions and other Pythons, and by people who may not know passwords.

        Steps: two batches are run; their offsets, the state and the splits are looked at.
        Pass: none holds a pickle, nor the value of a secret option.
        If it fails: serialize field by field (penstock.serialization.JsonSerializer), and leave credentials to the
        options.
        """
        stored: dict[str, bytes] = {}
        for first in (0, 10):
            self._put(origin, first, 10, 20)
            batch = self._plan(query)
            for splits in query.tasks(batch):
                stored |= {f"split {one.split_id}": query.source.split_serializer.serialize(one) for one in splits}
            query.read(batch)
            query.commit(batch)
            stored |= {f"offset {number}": text.encode() for number, text in enumerate(query.offsets)}
            stored["state"] = query.source.enumerator_serializer.serialize(self._state(query))
            if self._is_bounded:
                break
        problems = problems_in(stored, self._secrets(origin.options))
        assert not problems, "; ".join(problems)

    @proves(Capability.DISCOVERY)
    def test_the_state_stays_small(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: the state is written with every batch, for years.

        Steps: rows come 40 times, a batch is run each time; the size of its offset is noted.
        Pass: a batch adds at most 300 bytes to the offset, and later ones no more than earlier ones.
        If it fails: keep positions, not what was read; what was handed out is not handed out again, so forget it.
        """
        sizes = []
        for number in range(40):
            origin.put([number])
            batch = self._plan(query)
            query.read(batch)
            query.commit(batch)
            sizes.append(len(query.offsets[-1]))
        early, late = sizes[19] - sizes[4], sizes[39] - sizes[24]
        assert late <= 15 * 300, f"the offset grew from {sizes[24]} to {sizes[39]} bytes in 15 batches of one row"
        assert late <= 2 * max(early, 0) + 300, f"the offset grows faster and faster: {sizes[4::5]} bytes"

    @proves(Capability.STREAM_READ)
    def test_many_batches_in_bounded_memory(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a query runs for months, and what it keeps of each batch adds up.

        Steps: rows come and a batch is run, again and again, by one driver; what its process holds is compared.
        Pass: at some point, it holds no more after 20 batches, or after 40 or 60 more, than before them.
        If it fails: forget what was handed out once it is part of a state that is stored; give caches a bound.
        """
        if self._is_bounded:
            if self.limit is None:
                does_not_apply("a bounded source without a limit has one batch")
            origin.put(range(self.limit[2] * _BATCHES))
        numbers = itertools.count()

        def run_batch() -> None:
            if not self._is_bounded:
                origin.put([next(numbers)])
            elif query.offsets and json.loads(query.offsets[-1]).get("final"):
                not_tried("bounded memory in many batches", f"rows for more than {len(query.offsets)} batches")
            batch = self._plan(query)
            query.read(batch)
            query.commit(batch)
            query.forget()

        added = growth_of_batches(run_batch, lambda: len(query.offsets[-1]), 1, self.settles_s)
        if added is None:
            not_tried("bounded memory in many batches", "time for more of them")
        assert not added, f"each batch adds to what the process holds: {added}"

    @proves(Capability.STREAM_READ)
    def test_nothing_is_left_open(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a query runs for months, and a worker of Spark for thousands of tasks.

        Steps: a process of its own reads a batch again and again, each time with a new driver, and with a task that is
        left in the middle; open files, threads, child processes and temporary files are counted before and after.
        Pass: nothing has become more with the number of times, no thread keeps the process from ending, and nothing has
        changed that all code of a process shares: its working directory, environment, locale, signals, the seed of
        random numbers, the root logger, defaults of sockets and decimals. No thread ends with an error.
        If it fails: close what you open, also after an error: in close of the reader and of the enumerator. Keep
        connections in penstock.per_process, which closes them. A worker runs the user's code as well: use a
        generator, a context, a logger of your own.
        """
        origin.put(range(10))
        self._plan(query)
        job = SourceJob(query.source, self.schema, tuple(query.offsets), query.done)
        query.stop()
        problems = processes().run(read_many, job, _WARM_UP, _MORE, timeout_s=120.0)
        assert not problems, f"after {_MORE} more times: {'; '.join(problems)}"
