"""The cases of a sink that the function of ``foreachBatch`` writes to."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from penstock.checkpoint import names_of
from penstock.connector import Capability
from penstock.errors import BadConfigurationError
from penstock.testing._capabilities import proves
from penstock.testing._sink_base import SinkBase, query_crashing
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._target import SinkTarget

__all__ = ["SinkInBatchCases"]

#: Two batches are enough for what one leaves to the next.
_SHAPE = ((3, 2), (2, 4))


class SinkInBatchCases(SinkBase):
    """Writes inside a batch function: each batch is decided as a whole, for each sink by itself."""

    def _named(self, target: SinkTarget, checkpoint: Path, name: str = "kit", query_id: str = "") -> SinkQuery:
        sink = self._create_for(self._parse(target.options), self.schema)
        names = names_of(query_id or str(uuid.uuid4()), name)
        return SinkQuery(sink, self.schema, checkpoint, names, sink_name=name)

    @proves(Capability.EXACTLY_ONCE)
    def test_a_batch_function_sees_what_it_wrote(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a function reads, merges or announces what it has just written.

        Steps: two batches are written in a batch function.
        Pass: after each write, every row so far can be read once. Nothing is carried to a later batch.
        If it fails: a roller that is called with finish=True must close everything.
        """
        query = self._named(target, tmp_path / "checkpoint")
        for batch_id, shares in enumerate(self._batches(_SHAPE)):
            query.run(batch_id, shares)
            self._check(target, self._ids(_SHAPE[: batch_id + 1]), f"when the write of batch {batch_id} has returned")

    @proves(Capability.EXACTLY_ONCE)
    def test_a_batch_function_is_called_again(self, new_target: Callable[[], SinkTarget], tmp_path: Path) -> None:
        """Purpose: a function writes to two sinks, and is killed between the two writes.

        Steps: a batch is written to the first sink only; the query starts again, and writes it to both, with the rows
        in other tasks; a second write of the batch to the first sink is tried.
        Pass: every row can be read once in each, and the second write is refused.
        If it fails: names at the target must begin with context.query_id, which tells the two sinks apart.
        """
        targets, (first, second) = [new_target(), new_target()], self._batches(_SHAPE)
        query_id = str(uuid.uuid4())
        queries = [
            self._named(target, tmp_path / "checkpoint", name, query_id)
            for target, name in zip(targets, "ab", strict=True)
        ]
        for query in queries:
            query.run(0, first)
        queries[0].run(1, second)
        for query in queries:
            query.restart()
            query.run(1, list(reversed(second)))
        for target in targets:
            self._check(target, self._ids(_SHAPE), "in each sink, after a kill between the two")
        try:
            queries[0].run(1, second)
        except BadConfigurationError:
            return
        raise AssertionError("a second write of the same batch to the same sink was dropped in silence")

    @proves(Capability.EXACTLY_ONCE)
    def test_two_sinks_of_a_batch_function(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a function writes to one target twice, as two sinks; one cleans up what the other one needs.

        Steps: the sinks are called ``a`` and ``ab``. The tasks of the second one end; the first one writes two batches
        and gives a third one up; the second one commits; both begin again and write one more batch.
        Pass: every row of both can be read once.
        If it fails: names at the target begin with the whole context.query_id, and with something after it that no id
        has: the id of one sink may begin with that of the other.
        """
        self._needs_hidden_rows(query)
        query_id = str(uuid.uuid4())
        first, second = (self._named(target, tmp_path / "checkpoint", name, query_id) for name in ("a", "ab"))
        results = second.tasks(0, [[self.batch([0, 1])], [self.batch([2])]])
        for batch_id in (0, 1):
            first.run(batch_id, [[self.batch([10 + batch_id])]])
            first.restart()
        first.abort(2, first.tasks(2, [[self.batch([20])]]))
        first.finish()
        second.commit(0, results)
        for number, one in enumerate((first, second)):
            one.restart()
            one.run(3, [[self.batch([30 + number])]])
        self._check(target, Counter([0, 1, 2, 10, 11, 30, 31]), "of two sinks that write to one target")

    @proves(Capability.EXACTLY_ONCE)
    def test_one_of_two_sinks_is_killed(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a driver is killed between publishing and its note of that, while another sink cleans up.

        Steps: a batch is written to the sinks ``a`` and ``ab``; the driver is killed when the second one has published
        it; a new driver writes the batch to both again, and then one more.
        Pass: every row of both can be read once.
        If it fails: what a committer notes about published committables must stay until clear is called for this
        context.query_id with a higher base. The id of one sink may begin with that of the other.
        """
        self._needs_hidden_rows(query)
        query_id = str(uuid.uuid4())
        first, second = sinks = [self._named(target, tmp_path / "checkpoint", name, query_id) for name in ("a", "ab")]
        batches = [[[self.batch([number])] for number in numbers] for numbers in ((0, 1), (2, 3), (10,), (12,))]
        first.run(0, batches[0])
        results = second.tasks(0, batches[1])
        with query_crashing(second, "after publish"):
            second.commit(0, results)
        for one, shares in zip(sinks, batches[:2], strict=True):
            one.restart()
            one.run(0, shares)
        for one, shares in zip(sinks, batches[2:], strict=True):
            one.run(1, shares)
        self._check(target, Counter([0, 1, 2, 3, 10, 12]), "of two sinks, one of which was killed after it published")

    @proves(Capability.EXACTLY_ONCE)
    def test_a_batch_function_crashes_at_every_step(self, new_target: Callable[[], SinkTarget], tmp_path: Path) -> None:
        """Purpose: a driver is killed while the function of ``foreachBatch`` writes.

        Steps: as test_a_crash_at_every_step, with two batches that a batch function writes.
        Pass: after every one of them each row can be read once.
        If it fails: the message names the step.
        """
        batches = self._batches(_SHAPE)
        query = self._named(new_target(), tmp_path / "checkpoint-dry")
        query.run_all(batches)
        steps = query.fuse.steps
        for at in self._crash_points(steps):
            target = new_target()
            query = self._named(target, tmp_path / f"checkpoint-{at}")
            with query.crashing_at(at):
                query.run_all(batches)
            query.restart()
            query.run_all(batches)
            self._check(target, self._ids(_SHAPE), f"after a crash {steps[at]} ({at})")
