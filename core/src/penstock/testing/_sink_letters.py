"""The case of a sink whose bad records are sent elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.connector import Capability
from penstock.dead_letters import LETTER_COLUMN, LETTER_TYPE, LetterForm, letters
from penstock.retry import NO_RETRIES
from penstock.sink import LetterRoute, TwoPhaseCommitSink, with_dead_letters
from penstock.testing._capabilities import proves
from penstock.testing._differences import difference
from penstock.testing._samples.sink import FilesConnector
from penstock.testing._sink_base import SinkBase
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply

__all__ = ["SinkLetterCases"]

_IDS = pa.schema([("id", pa.int64())])
#: How many crashes are tried, at steps that are spread over the run.
_CRASHES = 12


def _ids(found: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([found.column("offset")], schema=_IDS)


class SinkLetterCases(SinkBase):
    """Rows and letters, decided together."""

    @proves(Capability.EXACTLY_ONCE)
    def test_dead_letters(self, new_target: Callable[[], SinkTarget], tmp_path: Path) -> None:
        """Purpose: a user sends records that could not be decoded to a place of their own.

        Steps: three batches in which every second record is a dead letter, which goes to files; run once to count the
        steps, and then again with a crash of the driver and its tasks at some of them; another driver carries on.
        Pass: each good record can be read once, and each letter is in the files once; neither is in the other place.
        If it fails: the engine makes one sink out of yours and the other one. Look at what your committer does when it
        is called for no committables, and whether two sinks of one process share something.
        """
        shape = [(4, 2), (3,), (0, 5)]
        every = list(range(sum(map(sum, shape))))

        def run(at: int | None, folder: Path) -> list[str]:
            target, query = self._with_letters(new_target(), folder)
            batches = self._marked(shape)
            if at is None:
                query.run_all(batches)
            else:
                with query.crashing_at(at):
                    query.run_all(batches)
                query.restart()
                query.run_all(batches)
            when = "" if at is None else f"after a crash at step {at}"
            self._check(target, Counter(one for one in every if not one % 2), when, promised=True)
            sent = Counter(_lines(folder / "letters"))
            if problem := difference(sent, Counter(one for one in every if one % 2), may_double=False):
                raise AssertionError(f"dead letters: {problem} {when}")
            return query.fuse.steps

        steps = run(None, tmp_path / "dry")
        for number in range(_CRASHES):
            at = number * len(steps) // _CRASHES
            run(at, tmp_path / f"crash-{at}")

    def _with_letters(self, target: SinkTarget, folder: Path) -> tuple[SinkTarget, SinkQuery]:
        rows = self._create_for(self._parse(target.options), self.schema)
        if not isinstance(rows, TwoPhaseCommitSink):
            does_not_apply("the sink commits nothing with these options")
        frame = self.schema.append(pa.field(LETTER_COLUMN, LETTER_TYPE))
        options = FilesConnector.sink_options
        assert options is not None
        files = FilesConnector().create_sink(options.parse({"path": str(folder / "letters")}, owner="letters"), _IDS)
        route = LetterRoute.of(
            frame,
            LETTER_COLUMN,
            connector="tested",
            destination="files",
            form=LetterForm(_IDS, _ids),
            retry=NO_RETRIES,
        )
        return target, SinkQuery(with_dead_letters(rows, files, route), frame, folder / "checkpoint")

    def _marked(self, shape: Sequence[Sequence[int]]) -> list[list[list[pa.RecordBatch]]]:
        first, batches = 0, []
        for counts in shape:
            shares = []
            for count in counts:
                ids = list(range(first, first + count))
                first += count
                errors = pa.array(["odd" if one % 2 else None for one in ids], pa.string())
                marked = letters(errors, stage="source", offset=pa.array(ids, pa.int64()))
                column = pa.field(LETTER_COLUMN, LETTER_TYPE)
                shares.append([self.batch(ids).append_column(column, marked)] if ids else [])
            batches.append(shares)
        return batches


def _lines(folder: Path) -> list[int]:
    files = [path for path in folder.glob("*.jsonl") if not path.name.startswith(".")]
    return [json.loads(line)["id"] for path in files for line in path.read_text().splitlines()]
