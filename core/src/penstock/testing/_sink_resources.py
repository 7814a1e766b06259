"""The cases of a sink about what it leaves open, and what it writes down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from penstock.connector import Capability
from penstock.sink import IdempotentSink
from penstock.testing._capabilities import proves
from penstock.testing._lines import text_of
from penstock.testing._processes import processes
from penstock.testing._sink_base import SinkBase
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._sink_processes import Lines, growth_of_job, lines_of_commits, run_many
from penstock.testing._stored import problems_in
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SinkResourceCases"]

_WARM_UP, _MORE = 5, 20
#: Tasks of the batches whose commits are compared: many small ones, then each twice the size of the previous one.
_SMALL, _SIZES = 25, (4, 8, 16, 32, 64)
#: So many small batches, after the first two, are compared with as many at the end. A line that is reached so much more
#: often in all of them is reported.
_COMPARED, _LEAST_MORE = 5, 50


class SinkResourceCases(SinkBase):
    """What a query holds, in memory and in its checkpoint.

    ``settles_s``: how long a client keeps what it has done, such as timers of requests that were answered, in seconds.
    """

    settles_s: ClassVar[float] = 0.0

    @proves(Capability.STREAM_WRITE)
    def test_nothing_is_left_open(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a query runs for months, and a worker of Spark for thousands of tasks.

        Steps: a process of its own runs some batches, then more of them, with attempts that are aborted and attempts
        that only end; open files, threads, child processes and temporary files are counted before and after.
        Pass: nothing has become more with the number of batches, no thread keeps the process from ending, and nothing
        has changed that all code of a process shares: its working directory, environment, locale, signals, the seed of
        random numbers, the root logger, defaults of sockets and decimals. No thread ends with an error.
        If it fails: close what you open, also after an error: in close of the writer, the committer, the upserter, the
        sender. Keep connections in penstock.per_process, which closes them. A worker runs the user's code as well: use
        a generator, a context, a logger of your own.
        """
        job = self._job(target, tmp_path / "left-open")
        share = [self.batch([number]) for number in range(2)]
        problems = processes().run(run_many, job, share, _WARM_UP, _MORE, timeout_s=120.0)
        assert not problems, f"after {_MORE} more times: {'; '.join(problems)}"

    @proves(Capability.STREAM_WRITE)
    def test_many_batches_in_bounded_memory(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a query runs for months, and what it keeps of each batch adds up.

        Steps: a process of its own runs batches, again and again, with one driver; what it holds is compared.
        Pass: at some point, it holds no more after 20 batches, or after 40 or 60 more, than before them.
        If it fails: look for what a module, a class or a cache remembers of rows, files or segments; give it a bound.
        """
        job = self._job(target, tmp_path / "many-batches")
        share = [self.batch([number]) for number in range(2)]
        added = processes().run(growth_of_job, job, share, self.settles_s, timeout_s=self.case_seconds)
        if added is None:
            not_tried("bounded memory in many batches", "time for more of them")
        assert not added, f"each batch adds to what the process holds: {added}"

    @proves(Capability.STREAM_WRITE)
    def test_a_commit_costs_no_more_than_it_has_to(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a query runs for months, and a batch may have thousands of tasks, which one driver commits.

        Steps: 25 batches of two tasks are committed, then batches of 4 to 64 tasks; the lines of the connector that
        each commit goes through are counted.
        Pass: no line is reached more than twice as often in a later small batch, nor more than four times as often for
        each further task of a large batch.
        If it fails: list what is still to be done, not all that ever was. A loop over all committables does not belong
        inside another one: use a set, or a dictionary.
        """
        if not query.commits or isinstance(query.sink, IdempotentSink):
            does_not_apply("the sink commits nothing")
        job = self._job(target, tmp_path / "commits")
        rows = [self.batch([number]) for number in range(_SIZES[-1])]
        lines = processes().run(lines_of_commits, job, rows, (*[2] * _SMALL, *_SIZES), timeout_s=120.0)
        problems = [*_with_history(lines[:_SMALL]), *_with_size(lines[_SMALL:])]
        assert not problems, f"what a commit costs grows: {problems[0]}"

    @proves(Capability.EXACTLY_ONCE)
    def test_what_is_stored_is_plain(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a checkpoint is read by other versions and other Pythons, and by people who may not know passwords.

        Steps: a batch is decided and committed; every file of the checkpoint is looked at.
        Pass: none holds a pickle, nor the value of a secret option.
        If it fails: serialize field by field (penstock.serialization.JsonSerializer), and leave credentials to the
        options.
        """
        query.run(0, self._batches([(2, 1)])[0])
        results = query.tasks(1, self._batches([(2, 1)])[0])
        stored = {path.name: path.read_bytes() for path in query.checkpoint.rglob("*") if path.is_file()}
        for result in results:
            for output in result.outputs:
                stored |= {f"committable {number}": one.data for number, one in enumerate(output.committables)}
                stored |= {f"state {number}": one.payload.data for number, one in enumerate(output.states)}
        query.abort(1, results)
        problems = problems_in(stored, self._secrets(target.options))
        assert not problems, "; ".join(problems)


def _with_history(lines: list[Lines]) -> Iterator[str]:
    """Yields lines that later batches reach more often, given those of each batch."""
    first, last = (sum(some, Lines()) for some in (lines[2 : 2 + _COMPARED], lines[-_COMPARED:]))
    for line, times in last.items():
        if times > 2 * first[line] and times - first[line] > _LEAST_MORE:
            yield (
                f"{times / _COMPARED:.0f} times for a batch, and {first[line] / _COMPARED:.0f} times for one that was "
                f"{_SMALL - 2 - _COMPARED} batches earlier, it goes through {text_of(*line)}"
            )


def _with_size(lines: list[Lines]) -> Iterator[str]:
    """Yields lines that large batches reach more often for a task, given those of the batches of ``_SIZES``."""
    for line in lines[-1]:
        small, large = (
            (lines[at + 1][line] - lines[at][line]) / (_SIZES[at + 1] - _SIZES[at]) for at in (0, len(_SIZES) - 2)
        )
        # Rounds of a loop that waits for an answer are few, however many tasks there are.
        if large > 4 * max(small, 1) and lines[-1][line] > _SIZES[-1] ** 2 / 4:
            yield (
                f"{large:.0f} times for a task of a large batch, and {small:.0f} times for one of a small batch, it "
                f"goes through {text_of(*line)}"
            )
