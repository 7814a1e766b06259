"""The cases of a sink about what it leaves open, and what it writes down."""

from __future__ import annotations

from pathlib import Path

from penstock.connector import Capability
from penstock.testing._capabilities import proves
from penstock.testing._processes import processes
from penstock.testing._sink_base import SinkBase
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._sink_processes import run_many
from penstock.testing._stored import problems_in
from penstock.testing._target import SinkTarget

__all__ = ["SinkResourceCases"]

_WARM_UP, _MORE = 5, 20


class SinkResourceCases(SinkBase):
    """What a query holds, in memory and in its checkpoint."""

    @proves(Capability.STREAM_WRITE)
    def test_nothing_is_left_open(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a query runs for months, and a worker of Spark for thousands of tasks.

        Steps: a process of its own runs some batches, then more of them, with attempts that are aborted and attempts
        that only end; open files, threads, child processes and temporary files are counted before and after.
        Pass: nothing has become more with the number of batches, and no thread keeps the process from ending.
        If it fails: close what you open, also after an error: in close of the writer, the committer, the upserter, the
        sender. Keep connections in penstock.per_process, which closes them.
        """
        job = self._job(target, tmp_path / "left-open")
        share = [self.batch([number]) for number in range(2)]
        problems = processes().run(run_many, job, share, _WARM_UP, _MORE, timeout_s=120.0)
        assert not problems, f"after {_MORE} more batches there are {'; '.join(problems)}"

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
