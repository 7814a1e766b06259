"""A small exactly-once sink by two-phase commit, to begin from: JSON lines in one file for each task of a batch.

A task writes to a file whose name begins with a dot; the driver renames it. A second, empty file beside it, its
witness, tells that it was there, even if a reader has taken it away since.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import Option, OptionSet, OptionValues
from penstock.serialization import JsonSerializer
from penstock.sink import (
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    Prepared,
    SinkContext,
    TwoPhaseCommitSink,
    WriterContext,
)

__all__ = ["FileSinkConnector", "FileSink"]

#: Of the hidden file, its witness, and the hidden file once nobody may publish it any more.
_SUFFIXES = ("", ".witness", ".sealed")


@dataclass(frozen=True)
class FileSink(TwoPhaseCommitSink[str, None]):
    """A committable is the name of a hidden file; nothing is carried from batch to batch."""

    path: str
    committable_serializer = JsonSerializer(1, lambda name: {"name": name}, lambda version, fields: str(fields["name"]))

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return FileWriter(self.path, context)

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return FileCommitter(self.path, context.query_id)


class FileWriter(CommittingSinkWriter[str, None]):
    """The file is named by query, base and attempt: no other attempt has it, and it is known for garbage."""

    def __init__(self, path: str, context: WriterContext) -> None:
        self._path = path
        self._context = context
        self._name = f".{context.query_id}.{context.base}.{context.attempt_id}.jsonl"
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
        open(f"{self._path}/{self._name}.witness", "x").close()
        self._context.metrics.add("rows_written", self._rows)
        return Prepared([self._name])

    def abort(self) -> None:
        if self._file is not None:
            os.unlink(f"{self._path}/{self._name}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class FileCommitter(Committer[str, None]):
    """Publishes by renaming, which happens once: a late call finds the hidden name gone."""

    def __init__(self, path: str, query_id: str) -> None:
        self._path = path
        self._query_id = query_id

    def _exists(self, name: str) -> bool:
        return os.path.exists(f"{self._path}/{name}")

    def look(self, committables: Sequence[str]) -> list[Found]:
        return [self._look(name) for name in committables]

    def _look(self, name: str) -> Found:
        if self._exists(name):
            return Found.OPEN
        is_published = self._exists(f"{name}.witness") and not self._exists(f"{name}.sealed")
        return Found.COMMITTED if is_published else Found.LOST

    def publish(self, committables: Sequence[str]) -> list[Found]:
        return [self._publish(name) for name in committables]

    def _publish(self, name: str) -> Found:
        try:
            os.rename(f"{self._path}/{name}", f"{self._path}/{name.removeprefix('.')}")
        except FileNotFoundError:
            return self._look(name)
        return Found.COMMITTED

    def seal(self, committables: Sequence[str]) -> None:
        for name in committables:
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{self._path}/{name}", f"{self._path}/{name}.sealed")

    def discard(self, committables: Sequence[str], states: Sequence[None]) -> None:
        self._remove([f"{name}{suffix}" for name in committables for suffix in _SUFFIXES])

    def clear(self, kept: Kept[str, None]) -> int:
        own = f".{self._query_id}."
        names = [name for name in os.listdir(self._path) if name.startswith(own)] if os.path.isdir(self._path) else []
        named = {f"{name}{suffix}" for name in kept.committables for suffix in _SUFFIXES}
        garbage = [one for one in names if int(one.removeprefix(own).split(".")[0]) < kept.base and one not in named]
        self._remove(garbage)
        return len(garbage)

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            if self._exists(name):
                os.unlink(f"{self._path}/{name}")


class FileSinkConnector(Connector):
    """Register it as an entry point of the group ``penstock.connectors``."""

    summary = "JSON lines, one file for each task of a batch"
    sink_options = OptionSet([Option("path", "A local directory", required=True)])
    capabilities = frozenset({Capability.STREAM_WRITE, Capability.EXACTLY_ONCE, Capability.RESCALING})

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> FileSink:
        return FileSink(options["path"])

    def describe_guarantee(self) -> str:
        return "exactly once: files are renamed when their batch is decided"
