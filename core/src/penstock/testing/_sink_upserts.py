"""The cases of a sink that writes rows under their keys: which row of a key stays."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.connector import Capability
from penstock.errors import PenstockError
from penstock.sink import CommittingSinkWriter, IdempotentSink
from penstock.testing._capabilities import proves
from penstock.testing._processes import processes
from penstock.testing._sink_base import SinkBase
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._sink_processes import run_attempt
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SinkUpsertCases"]


class SinkUpsertCases(SinkBase):
    """Of a key, the row that came last stays, whatever is repeated or late. ``id`` is the key."""

    def _upserts(self, query: SinkQuery, texts: Mapping[int, str | None]) -> pa.RecordBatch:
        """Returns rows with these texts under these keys, for an idempotent sink."""
        if not isinstance(query.sink, IdempotentSink):
            does_not_apply("rows are not written under a key")
        batch = self.with_texts(list(texts), list(texts.values()))
        if batch is None:
            not_tried("which row of a key stays", "column text in what batch makes")
        return batch

    def _check_texts(self, target: SinkTarget, wanted: Mapping[int, str | None], when: str) -> None:
        rows = target.read()
        seen = {self.id_of(row): self.text_of(row) for row in rows}
        assert len(rows) == len(seen), f"a key has several rows {when}: {len(rows)} rows, {len(seen)} keys"
        stale = {key: (seen.get(key), text) for key, text in wanted.items() if seen.get(key) != text}
        shown = "; ".join(f"key {key} has {found!r}, not {text!r}" for key, (found, text) in stale.items())
        assert not stale, f"{shown} {when}"

    @proves(Capability.EXACTLY_ONCE)
    def test_the_last_row_of_a_key_stays(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: an update is overwritten by the row that it replaces.

        Steps: batches write the same keys with other texts, twice in one task, and with a null; then another process
        writes a key, and this one writes what it had before.
        Pass: after each batch, each key has one row, with the text of the last one.
        If it fails: insert or *replace*; compare the timestamp that upsert gets, and not one of your own. A null is a
        value. What a process has written last may have been replaced by another one: a cache can't tell.
        """
        for batch_id, texts in enumerate((["a0", "b0"], ["a1", "b1"])):
            query.run(batch_id, [[self._upserts(query, {number: text})] for number, text in enumerate(texts)])
            self._check_texts(target, dict(enumerate(texts)), f"after batch {batch_id}")
        parts = [self._upserts(query, {0: "early", 1: "b2"}), self._upserts(query, {0: "late"})]
        query.run(2, [parts])
        self._check_texts(target, {0: "late", 1: "b2"}, "when a task has a key twice, in two Arrow batches")
        twice = pa.Table.from_batches([self._upserts(query, {0: "first"}), self._upserts(query, {0: "second"})])
        query.run(3, [twice.combine_chunks().to_batches()])
        self._check_texts(target, {0: "second", 1: "b2"}, "when an Arrow batch has a key twice")
        query.run(4, [[self._upserts(query, {0: None, 1: "b4"})]])
        self._check_texts(target, {0: None, 1: "b4"}, "when a text has become null")
        plan = query.plan(5)
        other = self._upserts(query, {1: "b5"})
        query.commit(5, [processes().run(run_attempt, query.sent, plan, query.task(5, 0), [other])])
        self._check_texts(target, {0: None, 1: "b5"}, "when another process has written")
        query.run(6, [[self._upserts(query, {1: "b4"})]])
        self._check_texts(target, {0: None, 1: "b4"}, "when a text has become again what it was")

    @proves(Capability.EXACTLY_ONCE)
    def test_a_batch_that_is_repeated_undoes_nothing(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a batch is run again after a crash, when another attempt of it has written some of its rows.

        Steps: an attempt writes and ends without a result; the batch is run by a new driver; then the next one.
        Pass: each key has the text of the last batch that wrote it.
        If it fails: rows are stamped by what upsert gets, which is the same for each attempt of a batch.
        """
        query.run(0, [[self._upserts(query, {0: "old", 1: "old"})]])
        for _ in range(2):
            query.tasks(1, [[self._upserts(query, {0: "new"})]])
            query.restart()
        query.run(1, [[self._upserts(query, {0: "new"})]])
        self._check_texts(target, {0: "new", 1: "old"}, "after a batch that was repeated")
        query.restart()
        query.run(2, [[self._upserts(query, {1: "newest"})]])
        query.finish()
        self._check_texts(target, {0: "new", 1: "newest"}, "after the batch that follows")

    @proves(Capability.EXACTLY_ONCE)
    def test_a_zombie_does_not_write_over_newer_rows(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: an attempt that was given up continues after later batches have written: the danger of upserts.

        Steps: an attempt of batch 0 is begun; batch 0 is run by another one, then batch 1 with the same keys; the first
        attempt writes its rows and ends.
        Pass: each key has the text of batch 1.
        If it fails: write a row only where the stored timestamp is older than the one that upsert gets; in one
        statement, not by looking first. The task's own clock is that of the zombie, and late.
        """
        old = self._upserts(query, {0: "old", 1: "old"})
        plan = query.plan(0)
        zombie = query.writer(plan, 0, 0)
        query.commit(0, [query.attempt(plan, 0, 0, [old])])
        query.run(1, [[self._upserts(query, {0: "new", 1: "new"})]])
        self._end(zombie, [old])
        self._check_texts(target, {0: "new", 1: "new"}, "after a zombie of batch 0 has written")
        query.finish()

    @staticmethod
    def _end(zombie: CommittingSinkWriter[Any, Any], batches: Sequence[pa.RecordBatch]) -> None:
        """Has an attempt write and end, if it still can."""
        with contextlib.closing(zombie) as writer, contextlib.suppress(PenstockError):
            for batch in batches:
                writer.write(batch)
            writer.prepare_commit()
