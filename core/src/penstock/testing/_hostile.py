"""Sinks with one flaw each, that the kit must catch: a test of the kit itself, and what the flaws look like.

Each is :class:`penstock.testing._file_sink.FileSink` with one mistake that is easy to make. ``FLAWS`` names them, with
the case that catches each.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from penstock.connector import Capability
from penstock.errors import BadConfigurationError, FatalError
from penstock.options import Option, OptionSet, OptionValues
from penstock.serialization import JsonSerializer
from penstock.sink import Committer, CommittingSinkWriter, Found, Kept, Prepared, SinkContext, WriterContext
from penstock.testing._file_sink import FileCommitter, FileSink, FileSinkConnector, FileWriter

__all__ = ["FLAWS", "Flaw", "hostile_connector"]


@dataclass(frozen=True)
class Flaw:
    """``caught_by`` is the case whose failure is expected; other cases may fail as well."""

    caught_by: str
    make_sink: Callable[[str], FileSink]
    connector: type[FileSinkConnector] = FileSinkConnector


class _WritesInPlace(FileWriter):
    def __init__(self, path: str, context: WriterContext) -> None:
        super().__init__(path, context)
        self._name = self._name.removeprefix(".")


class WritesInPlace(FileSink):
    """Rows are visible before the commit."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _WritesInPlace(self.path, context)


class _AppendingCommitter(FileCommitter):
    def _publish(self, name: str) -> Found:
        with open(f"{self._path}/{name}", "rb") as hidden, open(f"{self._path}/all.jsonl", "ab") as visible:
            visible.write(hidden.read())
        return Found.COMMITTED


class CommitsAgain(FileSink):
    """A commit that is repeated writes the rows again."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _AppendingCommitter(self.path, context.query_id)


class _ByBatchOnly(FileWriter):
    def __init__(self, path: str, context: WriterContext) -> None:
        super().__init__(path, context)
        self._name = f".{context.query_id}.{context.batch_id}.{context.writer_index}.jsonl"


class AttemptsShareAFile(FileSink):
    """Files are named by batch and task, so that two attempts of a task write to the same."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _ByBatchOnly(self.path, context)


class _CleansEverything(FileCommitter):
    def clear(self, kept: Kept[str, None]) -> int:
        names = [name for name in os.listdir(self._path) if name.startswith(".")] if os.path.isdir(self._path) else []
        self._remove(names)
        return len(names)


class CleansUpAfterOthers(FileSink):
    """A clean-up removes whatever is hidden, another query's included."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _CleansEverything(self.path, context.query_id)


class _CleansNothing(FileCommitter):
    def clear(self, kept: Kept[str, None]) -> int:
        return 0


class LeavesThingsBehind(FileSink):
    """Nothing ever removes what crashed attempts left."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _CleansNothing(self.path, context.query_id)


class _ForgetsTheRest(FileWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        if self._rows == 0:
            super().write(batch)


class ForgetsLaterBatches(FileSink):
    """Only the first Arrow batch of a task is written."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _ForgetsTheRest(self.path, context)


class _CountsNothing(FileWriter):
    def prepare_commit(self) -> Prepared[str, None]:
        prepared = super().prepare_commit()
        self._context.metrics.take()
        return prepared


class CountsNothing(FileSink):
    """No metric says how many rows were written."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _CountsNothing(self.path, context)


class _NeedsRows(FileWriter):
    def prepare_commit(self) -> Prepared[str, None]:
        return Prepared([super().prepare_commit().committables[0]])


class StumblesOverEmptyTasks(FileSink):
    """A task without rows fails."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _NeedsRows(self.path, context)


class _LostIsCommitted(FileCommitter):
    def look(self, committables: Sequence[str]) -> list[Found]:
        self.discard([name for name in os.listdir(self._path) if name.endswith(".jsonl") and name[0] == "."][1:], [])
        return [found if found is Found.OPEN else Found.COMMITTED for found in super().look(committables)]


class LosesWithoutAWord(FileSink):
    """What can't be committed any more is reported as committed."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _LostIsCommitted(self.path, context.query_id)


@dataclass(frozen=True)
class HoldsALock(FileSink):
    """The sink holds something open, which can't be sent to a task."""

    lock: Any = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class TellsItsPassword(FileSink):
    """The secret is a field of the sink, and so in its repr."""

    password: str = ""


class _WithPassword(FileSinkConnector):
    sink_options = OptionSet(
        [Option("path", "A local directory", required=True), Option("password", "Told to everybody", secret=True)]
    )

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> FileSink:
        return TellsItsPassword(options["path"], options["password"] or "")


class _Lenient(OptionSet):
    def parse(self, given: Mapping[str, str], *, owner: str, ignore: Iterable[str] = ()) -> OptionValues:
        known = {name: text for name, text in given.items() if self.find(name)}
        return super().parse(known, owner=owner, ignore=ignore)


class _TakesAnyOption(FileSinkConnector):
    """Options that nobody declared are dropped without a word."""

    sink_options = _Lenient([Option("path", "A local directory", required=True)])


class _StateInTheClass(FileWriter):
    shared: ClassVar[list[str]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.shared.extend(json.dumps(row) for row in batch.to_pylist())
        super().write(batch)

    def prepare_commit(self) -> Prepared[str, None]:
        if self._file is not None:
            self._file.seek(0)
            self._file.write("".join(f"{line}\n" for line in self.shared))
            self.shared.clear()
        return super().prepare_commit()


class SharesStateBetweenAttempts(FileSink):
    """Rows are collected in the class, so that those of a failed attempt come with those of the next."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _StateInTheClass(self.path, context)


class _KeepsRows(FileWriter):
    def __init__(self, path: str, context: WriterContext) -> None:
        super().__init__(path, context)
        self._kept: list[Any] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._kept += batch.to_pylist()

    def prepare_commit(self) -> Prepared[str, None]:
        if self._kept:
            super().write(pa.RecordBatch.from_pylist(self._kept, self._context.schema))
        return super().prepare_commit()


class KeepsRowsInMemory(FileSink):
    """Everything is collected, and written at the end."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _KeepsRows(self.path, context)


class StumblesOverAColumn(FileSink):
    """A column that it does not know is a KeyError somewhere."""

    def validate_schema(self, schema: pa.Schema) -> None:
        known = {"id": 0, "text": 1}
        for name in schema.names:
            known[name]


class _ReadsAnyVersion(JsonSerializer[str]):
    def deserialize(self, version: int, data: bytes) -> str:
        return str(json.loads(data).get("name"))


class MisreadsNewerForms(FileSink):
    """The version of a stored form is not looked at."""

    committable_serializer = _ReadsAnyVersion(1, lambda name: {"name": name}, lambda version, fields: fields["name"])


class _OutageIsTheEnd(FileCommitter):
    def look(self, committables: Sequence[str]) -> list[Found]:
        if not os.path.isdir(self._path):
            raise FatalError("the directory is gone")
        return super().look(committables)


class TakesAnOutageForTheEnd(FileSink):
    """A system that can't be reached stops the query for good."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _OutageIsTheEnd(self.path, context.query_id)


class _Forgiving(OptionSet):
    def parse(self, given: Mapping[str, str], *, owner: str, ignore: Iterable[str] = ()) -> OptionValues:
        try:
            return super().parse(given, owner=owner, ignore=ignore)
        except BadConfigurationError:
            return super().parse({"path": given["path"]}, owner=owner, ignore=ignore)


class _IgnoresWrongValues(FileSinkConnector):
    """A value that can't be parsed becomes the default."""

    sink_options = _Forgiving([Option("path", "A local directory", required=True), Option("rows", "", kind="int")])


class _Boasts(FileSinkConnector):
    """Says what it does not declare."""

    capabilities = FileSinkConnector.capabilities - {Capability.EXACTLY_ONCE}


#: What is wrong with each sink -> the case that must fail, and the sink.
FLAWS: dict[str, Flaw] = {
    "writes in place": Flaw("test_nothing_is_visible_before_the_commit", WritesInPlace),
    "commit is not idempotent": Flaw("test_commit_twice", CommitsAgain),
    "attempts share a file": Flaw("test_a_zombie_never_becomes_visible", AttemptsShareAFile),
    "state shared between attempts": Flaw("test_a_zombie_never_becomes_visible", SharesStateBetweenAttempts),
    "cleans up after others": Flaw("test_another_query_is_left_alone", CleansUpAfterOthers),
    "leaves things behind": Flaw("test_nothing_lingers", LeavesThingsBehind),
    "forgets later Arrow batches": Flaw("test_rows_arrive", ForgetsLaterBatches),
    "counts nothing": Flaw("test_metrics_count_rows", CountsNothing),
    "stumbles over empty tasks": Flaw("test_batches_without_rows", StumblesOverEmptyTasks),
    "loses without a word": Flaw("test_rows_arrive", LosesWithoutAWord),
    "can't be pickled": Flaw("test_it_can_be_pickled", HoldsALock),
    "a secret in its repr": Flaw("test_secrets_are_never_shown", TellsItsPassword, _WithPassword),
    "keeps rows in memory": Flaw("test_many_rows_in_bounded_memory", KeepsRowsInMemory),
    "stumbles over a column": Flaw("test_the_schema_changes", StumblesOverAColumn),
    "misreads newer forms": Flaw("test_a_newer_stored_form_is_refused", MisreadsNewerForms),
    "takes an outage for the end": Flaw("test_the_system_is_away_for_a_while", TakesAnOutageForTheEnd),
    "ignores wrong values": Flaw("test_a_value_of_the_wrong_type_is_refused", FileSink, _IgnoresWrongValues),
    "boasts": Flaw("test_it_does_not_say_exactly_once", FileSink, _Boasts),
    "takes any option": Flaw("test_an_unknown_option_is_refused", FileSink, _TakesAnyOption),
}


def hostile_connector(flaw: str) -> type[FileSinkConnector]:
    """A connector whose sink has the flaw of that name."""
    found = FLAWS[flaw]
    if found.connector is not FileSinkConnector:
        return found.connector

    class Hostile(FileSinkConnector):
        def create_sink(self, options: OptionValues, schema: pa.Schema) -> FileSink:
            return found.make_sink(options["path"])

    return Hostile
