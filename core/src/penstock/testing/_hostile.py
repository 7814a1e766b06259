"""Sinks with one flaw each, that the kit must catch: a test of the kit itself, and what the flaws look like.

Each is the sink of ``_samples/sink`` with one mistake that is easy to make. ``FLAWS`` names them, with the case that
catches each.
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
from penstock.options import Mode, Option, OptionSet, OptionValues
from penstock.serialization import JsonSerializer
from penstock.sink import Committer, CommittingSinkWriter, Found, Kept, PreparedCommit, SinkContext, WriterContext
from penstock.testing._samples.sink import FilesConnector
from penstock.testing._samples.sink._options import SinkOptions
from penstock.testing._samples.sink.sink._committer import FilesCommitter
from penstock.testing._samples.sink.sink._sink import FilesTransactionalSink
from penstock.testing._samples.sink.sink._writer import FilesWriter

__all__ = ["FLAWS", "Flaw", "hostile_connector"]


@dataclass(frozen=True)
class Flaw:
    """``caught_by`` is the case whose failure is expected; other cases may fail as well."""

    caught_by: str
    make_sink: Callable[[SinkOptions], FilesTransactionalSink]
    connector: type[FilesConnector] = FilesConnector


class _WritesInPlace(FilesWriter):
    def __init__(self, path: str, context: WriterContext) -> None:
        super().__init__(path, context)
        self._name = self._name.removeprefix(".")


class WritesInPlace(FilesTransactionalSink):
    """Rows are visible before the commit."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _WritesInPlace(self.options.path, context)


class _AppendingCommitter(FilesCommitter):
    def _publish(self, name: str) -> Found:
        with open(f"{self._path}/{name}", "rb") as hidden, open(f"{self._path}/all.jsonl", "ab") as visible:
            visible.write(hidden.read())
        return Found.COMMITTED


class CommitsAgain(FilesTransactionalSink):
    """A commit that is repeated writes the rows again."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _AppendingCommitter(self.options.path, context.query_id)


class _ByBatchOnly(FilesWriter):
    def __init__(self, path: str, context: WriterContext) -> None:
        super().__init__(path, context)
        self._name = f".{context.query_id}.{context.batch_id}.{context.writer_index}.jsonl"


class AttemptsShareAFile(FilesTransactionalSink):
    """Files are named by batch and task, so that two attempts of a task write to the same."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _ByBatchOnly(self.options.path, context)


class _CleansEverything(FilesCommitter):
    def clear(self, kept: Kept[str, None]) -> int:
        names = [name for name in os.listdir(self._path) if name.startswith(".")] if os.path.isdir(self._path) else []
        self._remove(names)
        return len(names)


class CleansUpAfterOthers(FilesTransactionalSink):
    """A clean-up removes whatever is hidden, another query's included."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _CleansEverything(self.options.path, context.query_id)


class _CleansNothing(FilesCommitter):
    def clear(self, kept: Kept[str, None]) -> int:
        return 0


class LeavesThingsBehind(FilesTransactionalSink):
    """Nothing ever removes what crashed attempts left."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _CleansNothing(self.options.path, context.query_id)


class _ForgetsTheRest(FilesWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        if self._rows == 0:
            super().write(batch)


class ForgetsLaterBatches(FilesTransactionalSink):
    """Only the first Arrow batch of a task is written."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _ForgetsTheRest(self.options.path, context)


class _CountsNothing(FilesWriter):
    def prepare_commit(self) -> PreparedCommit[str, None]:
        prepared = super().prepare_commit()
        self._context.metrics.take()
        return prepared


class CountsNothing(FilesTransactionalSink):
    """No metric says how many rows were written."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _CountsNothing(self.options.path, context)


class _NeedsRows(FilesWriter):
    def prepare_commit(self) -> PreparedCommit[str, None]:
        return PreparedCommit([super().prepare_commit().committables[0]])


class StumblesOverEmptyTasks(FilesTransactionalSink):
    """A task without rows fails."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _NeedsRows(self.options.path, context)


class _LostIsCommitted(FilesCommitter):
    def look(self, committables: Sequence[str]) -> list[Found]:
        self.discard([name for name in os.listdir(self._path) if name.endswith(".jsonl") and name[0] == "."][1:], [])
        return [found if found is Found.OPEN else Found.COMMITTED for found in super().look(committables)]


class LosesWithoutAWord(FilesTransactionalSink):
    """What can't be committed any more is reported as committed."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _LostIsCommitted(self.options.path, context.query_id)


@dataclass(frozen=True)
class HoldsALock(FilesTransactionalSink):
    """The sink holds something open, which can't be sent to a task."""

    lock: Any = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class TellsItsPassword(FilesTransactionalSink):
    """The secret is a field of the sink, and so in its repr."""

    password: str = ""


class _WithPassword(FilesConnector):
    sink_options = OptionSet(
        [Option("path", "A local directory", required=True), Option("password", "Printed in errors", secret=True)]
    )

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> FilesTransactionalSink:
        return TellsItsPassword(SinkOptions.from_values(options), options["password"] or "")


class _Lenient(OptionSet):
    def parse(
        self, given: Mapping[str, str], *, owner: str, ignore: Iterable[str] = (), mode: Mode | None = None
    ) -> OptionValues:
        known = {name: text for name, text in given.items() if self.find(name)}
        return super().parse(known, owner=owner, ignore=ignore, mode=mode)


class _TakesAnyOption(FilesConnector):
    """Drops undeclared options without a word."""

    sink_options = _Lenient([Option("path", "A local directory", required=True)])


class _StateInTheClass(FilesWriter):
    shared: ClassVar[list[str]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.shared.extend(json.dumps(row) for row in batch.to_pylist())
        super().write(batch)

    def prepare_commit(self) -> PreparedCommit[str, None]:
        if self._file is not None:
            self._file.seek(0)
            self._file.write("".join(f"{line}\n" for line in self.shared))
            self.shared.clear()
        return super().prepare_commit()


class SharesStateBetweenAttempts(FilesTransactionalSink):
    """Rows are collected in the class, so that those of a failed attempt come with those of the next."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _StateInTheClass(self.options.path, context)


class _KeepsRows(FilesWriter):
    def __init__(self, path: str, context: WriterContext) -> None:
        super().__init__(path, context)
        self._kept: list[Any] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._kept += batch.to_pylist()

    def prepare_commit(self) -> PreparedCommit[str, None]:
        if self._kept:
            super().write(pa.RecordBatch.from_pylist(self._kept, self._context.schema))
        return super().prepare_commit()


class KeepsRowsInMemory(FilesTransactionalSink):
    """Everything is collected, and written at the end."""

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return _KeepsRows(self.options.path, context)


class StumblesOverAColumn(FilesTransactionalSink):
    """A column that it does not know is a KeyError somewhere."""

    def validate_schema(self, schema: pa.Schema) -> None:
        known = {"id": 0, "text": 1}
        for name in schema.names:
            known[name]


class _ReadsAnyVersion(JsonSerializer[str]):
    def deserialize(self, version: int, data: bytes) -> str:
        return str(json.loads(data).get("name"))


class MisreadsNewerForms(FilesTransactionalSink):
    """The version of a stored form is not looked at."""

    committable_serializer = _ReadsAnyVersion(1, lambda name: {"name": name}, lambda version, fields: fields["name"])


class _OutageIsTheEnd(FilesCommitter):
    def look(self, committables: Sequence[str]) -> list[Found]:
        if not os.path.isdir(self._path):
            raise FatalError("the directory is gone")
        return super().look(committables)


class TakesAnOutageForTheEnd(FilesTransactionalSink):
    """A system that can't be reached stops the query for good."""

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return _OutageIsTheEnd(self.options.path, context.query_id)


class _Forgiving(OptionSet):
    def parse(
        self, given: Mapping[str, str], *, owner: str, ignore: Iterable[str] = (), mode: Mode | None = None
    ) -> OptionValues:
        try:
            return super().parse(given, owner=owner, ignore=ignore, mode=mode)
        except BadConfigurationError:
            return super().parse({"path": given["path"]}, owner=owner, ignore=ignore, mode=mode)


class _IgnoresWrongValues(FilesConnector):
    """A value that can't be parsed becomes the default."""

    sink_options = _Forgiving([Option("path", "A local directory", required=True), Option("rows", "", kind="int")])


class _ShrugsAtAnOption(FilesConnector):
    """Takes an option, and does nothing with it."""

    sink_options = OptionSet(
        [Option("path", "A local directory", required=True), Option("rows", "Most rows in a file", kind="int")]
    )


class _Boasts(FilesConnector):
    """Says what it does not declare."""

    capabilities = FilesConnector.capabilities - {Capability.EXACTLY_ONCE}


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
    "ignores wrong values": Flaw(
        "test_a_value_of_the_wrong_type_is_refused", FilesTransactionalSink, _IgnoresWrongValues
    ),
    "shrugs at an option": Flaw("test_options_take_effect_or_are_refused", FilesTransactionalSink, _ShrugsAtAnOption),
    "boasts": Flaw("test_it_does_not_say_exactly_once", FilesTransactionalSink, _Boasts),
    "takes any option": Flaw("test_an_unknown_option_is_refused", FilesTransactionalSink, _TakesAnyOption),
}


def hostile_connector(flaw: str) -> type[FilesConnector]:
    """Returns a connector whose sink has the flaw of that name."""
    found = FLAWS[flaw]
    if found.connector is not FilesConnector:
        return found.connector

    class Hostile(FilesConnector):
        def create_sink(self, options: OptionValues, schema: pa.Schema) -> FilesTransactionalSink:
            return found.make_sink(SinkOptions.from_values(options))

    return Hostile
