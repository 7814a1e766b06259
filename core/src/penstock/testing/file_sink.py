"""A small exactly-once sink by two-phase commit, to begin from: JSON lines in one file for each task of a batch.

A task writes to a file whose name begins with a dot; the driver renames it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.options import Option, OptionSet, OptionValues
from penstock.plugins import EXACTLY_ONCE, RESCALING, STREAM_WRITE, Connector
from penstock.serialization import JsonSerializer
from penstock.sink import CommitOutcome, Committer, Prepared, SinkContext, SinkWriter, TwoPhaseCommitSink, WriterContext

__all__ = ["FileSinkConnector", "FileSink"]


@dataclass(frozen=True)
class FileSink(TwoPhaseCommitSink[str, None]):
    """A committable is the name of a hidden file; nothing is carried from batch to batch."""

    path: str
    committable_serializer = JsonSerializer(1, lambda name: {"name": name}, lambda version, fields: str(fields["name"]))
    state_serializer = JsonSerializer(1, lambda nothing: {}, lambda version, fields: None)

    def create_writer(self, context: WriterContext) -> SinkWriter[str, None]:
        return FileWriter(self.path, context)

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return FileCommitter(self.path, context.query_id)


class FileWriter(SinkWriter[str, None]):
    """The file is named by query, batch and attempt: no other attempt has it, and a clean-up can tell whose it is."""

    def __init__(self, path: str, context: WriterContext) -> None:
        self._path = path
        self._context = context
        self._name = f".{context.query_id}.{context.batch_id}.{context.attempt_id}.jsonl"
        self._file: Any = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._file is None and batch.num_rows:
            os.makedirs(self._path, exist_ok=True)
            self._file = open(f"{self._path}/{self._name}", "w", encoding="utf-8")  # noqa: SIM115
        for row in batch.to_pylist():
            self._file.write(json.dumps(row, default=str) + "\n")
        self._rows += batch.num_rows

    def prepare_commit(self) -> Prepared[str, None]:
        """See the contract: the file is on the disk, and hidden."""
        if self._file is None:
            return Prepared()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._context.metrics.add("rows_written", self._rows)
        return Prepared([self._name])

    def abort(self) -> None:
        if self._file is not None:
            os.unlink(f"{self._path}/{self._name}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class FileCommitter(Committer[str, None]):
    """Publishes by renaming: once, and whoever asks again can see that it was done."""

    def __init__(self, path: str, query_id: str) -> None:
        self._path = path
        self._query_id = query_id

    def commit(self, committables: Sequence[str]) -> list[CommitOutcome]:
        return [self._publish(name) for name in committables]

    def _publish(self, name: str) -> CommitOutcome:
        hidden, visible = f"{self._path}/{name}", f"{self._path}/{name.removeprefix('.')}"
        if os.path.exists(visible):
            return CommitOutcome.ALREADY_COMMITTED
        if not os.path.exists(hidden):
            return CommitOutcome.LOST
        os.rename(hidden, visible)
        return CommitOutcome.COMMITTED

    def abort(self, committables: Sequence[str], states: Sequence[None]) -> None:
        for name in committables:
            if os.path.exists(f"{self._path}/{name}"):
                os.unlink(f"{self._path}/{name}")

    def clean_up(self, live_states: Sequence[None], *, before_batch: int) -> int:
        own = f".{self._query_id}."
        names = [name for name in os.listdir(self._path) if name.startswith(own)] if os.path.isdir(self._path) else []
        dead = [name for name in names if int(name.removeprefix(own).split(".")[0]) < before_batch]
        self.abort(dead, [])
        return len(dead)


class FileSinkConnector(Connector):
    """Register it as an entry point of the group ``penstock.connectors``."""

    summary = "JSON lines, one file for each task of a batch"
    sink_options = OptionSet([Option("path", "A local directory", required=True)])
    capabilities = frozenset({STREAM_WRITE, EXACTLY_ONCE, RESCALING})

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> FileSink:
        return FileSink(options["path"])

    def describe_guarantee(self) -> str:
        return "exactly once: files are renamed when their batch is decided"
