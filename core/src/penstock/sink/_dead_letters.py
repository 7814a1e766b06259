"""A sink with dead letters: rows go to one sink, letters to another, and one decision counts for both.

The two are a union (see :mod:`penstock.sink._union`), except that each task writes to both with one writer. It splits
every batch: a row whose letter column is not null becomes a letter and nothing else. Rows that the first sink refuses
while it writes become letters as well. A first sink that can take letters into its own commits does so, and is then the
only member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.dead_letters import LETTER_SCHEMA, LetterForm, is_letter_type, letters, rows_as_json
from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.retry import RetryPolicy
from penstock.serialization import DEAD_LETTER_VERSIONS, SimpleVersionedSerializer, Versioned, no_letter_sink
from penstock.serialization.ddl import shown_type
from penstock.sink._contracts import (
    CheckpointLocation,
    CommittingSinkWriter,
    PreparedCommit,
    RefusedRows,
    Sink,
    SinkContext,
    SinkWriter,
    SupportsCompleteMode,
    SupportsOtherRows,
    SupportsWriteTimestamps,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.sink._union import Member, Owned, SinkUnion
from penstock.system import system

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LetterRoute", "with_dead_letters"]

_ROWS, _LETTERS = "", "letters"


@dataclass(frozen=True)
class LetterRoute:
    """How letters are found and where they go. Picklable.

    ``schema`` is that of the frame, ``column`` its letter column, ``None`` if it has none: then only refused rows
    become letters. ``connector`` is the name of the connector that writes the rows, ``format`` of that which writes
    letters; ``form`` is how it takes them, and ``retry`` for how long it is waited for.
    """

    schema: pa.Schema
    column: str | None
    connector: str
    format: str
    form: LetterForm
    retry: RetryPolicy

    @classmethod
    def of(
        cls, schema: pa.Schema, column: str, *, connector: str, destination: str, form: LetterForm, retry: RetryPolicy
    ) -> LetterRoute:
        """Returns the route for rows of ``schema``. Raises BadConfigurationError if ``column`` holds something else,
        or another column holds letters.
        """
        for field in schema:
            if (field.name == column) != is_letter_type(field.type):
                raise BadConfigurationError(
                    f"column '{field.name}' is of type {shown_type(field.type)}, and the one with dead letters is "
                    "made by a source's badRecords=deadLetter: name that one with the option 'badRecordColumn'"
                    if field.name == column
                    else f"column '{field.name}' holds dead letters: set the option 'badRecordColumn' to {field.name}, "
                    "or drop the column"
                )
        return cls(schema, column if column in schema.names else None, connector, destination, form, retry)

    @property
    def row_schema(self) -> pa.Schema:
        """That of the rows that are written, without letters."""
        return pa.schema([field for field in self.schema if field.name != self.column])


def with_dead_letters(rows: Sink, letter_sink: Sink, route: LetterRoute) -> Sink:
    """Returns ``rows`` with its dead letters sent to ``letter_sink``. Driver.

    Raises BadConfigurationError if one of the two commits and the other one can't.
    """
    if isinstance(rows, TwoPhaseCommitSink) != isinstance(letter_sink, TwoPhaseCommitSink):
        first, second = (
            ("exactly once", "at least once")
            if isinstance(rows, TwoPhaseCommitSink)
            else ("at least once", "exactly once")
        )
        raise BadConfigurationError(
            f"rows are delivered {first}, and dead letters {second} (penstock.{route.format}): set the option "
            "'delivery' so that both are the same"
        )
    if not isinstance(rows, TwoPhaseCommitSink) or not isinstance(letter_sink, TwoPhaseCommitSink):
        return _AtLeastOnce(rows, letter_sink, route)
    joined = rows.with_rows_of(letter_sink) if isinstance(rows, SupportsOtherRows) else None
    if isinstance(joined, TwoPhaseCommitSink):
        members: list[Member] = [_RowsMember(_ROWS, joined, route.row_schema)]
    else:
        members = [
            _RowsMember(_ROWS, rows, route.row_schema),
            _LettersMember(_LETTERS, letter_sink, route.form.schema, route.retry),
        ]
    return _kind(members)(members, route, letter_sink)


def _validate_letters(sink: Sink, route: LetterRoute) -> None:
    try:
        sink.validate_schema(route.form.schema)
    except BadConfigurationError as error:
        raise BadConfigurationError(f"dead letters (options 'deadLetters.*'): {error}") from error


# 1. The two sinks as one.


class _RowsMember(Member):
    """Its names at the target are those that it has without dead letters: those may come and go."""

    def names_in(self, group: str) -> str:
        return group

    def context_of(self, group: Any) -> Any:
        return replace(group, schema=self.schema)


@dataclass(frozen=True)
class _LettersMember(Member):
    retry: RetryPolicy

    def context_of(self, group: Any) -> Any:
        place = group.checkpoint
        if place is not None:
            place = CheckpointLocation(place.storage, f"{place.path}/penstock/dead-letters")
        return replace(
            group, query_id=self.names_in(group.query_id), schema=self.schema, checkpoint=place, retry=self.retry
        )


class _Serializer(SimpleVersionedSerializer[Owned]):
    """Rows have the form that they have without dead letters, and letters have versions of their own."""

    def __init__(self, serializer_of: Callable[[str], SimpleVersionedSerializer[Any]]) -> None:
        self._serializer_of = serializer_of

    @property
    def version(self) -> int:
        return self._serializer_of(_ROWS).version

    def pack(self, value: Owned) -> Versioned:
        stored = self._serializer_of(value.member).pack(value.value)
        return stored if value.member == _ROWS else Versioned(DEAD_LETTER_VERSIONS + stored.version, stored.data)

    def unpack(self, stored: Versioned) -> Owned:
        member, own = _split(stored)
        return Owned(member, self._serializer_of(member).unpack(own))

    def serialize(self, value: Owned) -> bytes:
        return self.pack(value).data

    def deserialize(self, version: int, data: bytes) -> Owned:
        return self.unpack(Versioned(version, data))


def _split(stored: Versioned) -> tuple[str, Versioned]:
    """Returns whose it is by its version, and its own form."""
    if stored.version <= DEAD_LETTER_VERSIONS:
        return _ROWS, stored
    return _LETTERS, Versioned(stored.version - DEAD_LETTER_VERSIONS, stored.data)


class _WithDeadLetters(SinkUnion):
    """The members are the rows' sink and the letters', or the rows' alone, which takes letters as well."""

    def __init__(self, members: Sequence[Member], route: LetterRoute, letter_sink: Sink) -> None:
        super().__init__(members)
        self._route = route
        self._letter_sink = letter_sink

    def _with(self, members: Sequence[Member]) -> Self:
        return type(self)(members, self._route, self._letter_sink)

    def _serializer(self, of: Callable[[str], SimpleVersionedSerializer[Any]]) -> SimpleVersionedSerializer[Owned]:
        return _Serializer(of)

    def _split(self, stored: Versioned) -> tuple[str, Versioned]:
        return _split(stored)

    def _member(self, name: str) -> Member:
        if name not in self.members:
            raise no_letter_sink()
        return self.members[name]

    @property
    def _rows(self) -> TwoPhaseCommitSink[Any, Any]:
        return self.members[_ROWS].sink

    @property
    def target(self) -> str:
        """Returns that of the rows."""
        return self._rows.target

    def batch_log(self, query_id: str) -> CheckpointLocation | None:
        """Returns that of the rows."""
        return self._rows.batch_log(query_id)

    def validate_schema(self, schema: pa.Schema) -> None:
        self._rows.validate_schema(self._route.row_schema)
        _validate_letters(self._letter_sink, self._route)

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Owned, Owned]:
        """Makes a writer that splits batches. Task."""
        letter_box = _LetterBox(self._route, context, self._letter_writer(context), self.target)
        own = replace(self.members[_ROWS].context_of(context), refused=letter_box)
        return _CommittingWriter(self._rows.create_writer(own), letter_box, self._route)

    def _letter_writer(self, context: WriterContext) -> _MakeWriter:
        member = self.members.get(_LETTERS)
        if member is None:
            return lambda rows, metrics: _OtherRows(rows)
        # Another attempt: what the two leave is never under one name, wherever letters go.
        own = replace(member.context_of(context), attempt_id=system().new_id())
        return lambda rows, metrics: member.sink.create_writer(replace(own, metrics=metrics))


class _Stamped(_WithDeadLetters, SupportsWriteTimestamps):
    """With a member whose rows need write timestamps."""


class _Complete(_Stamped, SupportsCompleteMode):
    """With two members that take results which are whole again in each batch."""


def _kind(members: Sequence[Member]) -> type[_WithDeadLetters]:
    if all(isinstance(member.sink, SupportsCompleteMode) for member in members):
        return _Complete
    return _Stamped if any(isinstance(one.sink, SupportsWriteTimestamps) for one in members) else _WithDeadLetters


@dataclass(frozen=True)
class _AtLeastOnce(Sink):
    """Two sinks without commits."""

    rows: Sink
    letters: Sink
    route: LetterRoute

    def validate_schema(self, schema: pa.Schema) -> None:
        self.rows.validate_schema(self.route.row_schema)
        _validate_letters(self.letters, self.route)

    def start(self, context: SinkContext) -> _AtLeastOnce:
        rows = self.rows.start(replace(context, schema=self.route.row_schema))
        return replace(self, rows=rows, letters=self.letters.start(self._letter_context(context)))

    def _letter_context(self, context: Any) -> Any:
        return replace(context, schema=self.route.form.schema, retry=self.route.retry)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        def letter_writer(rows: SinkWriter, metrics: Metrics) -> SinkWriter:
            return self.letters.create_writer(replace(self._letter_context(context), metrics=metrics))

        letter_box = _LetterBox(self.route, context, letter_writer)
        own = replace(context, schema=self.route.row_schema, refused=letter_box)
        return _SplittingWriter(self.rows.create_writer(own), letter_box, self.route)


# 2. One writer for both.

_MakeWriter = Callable[[SinkWriter, Metrics], SinkWriter]


class _OtherRows(SinkWriter):
    """The rows' own writer, which takes letters into its commit."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write_other(batch)

    def flush(self) -> None:
        """Does nothing: the rows' writer flushes."""


class _LetterBox(RefusedRows):
    """Letters of one attempt, and the writer that takes them: made with the first letter, as a rule there is none."""

    def __init__(self, route: LetterRoute, context: WriterContext, make_writer: _MakeWriter, target: str = "") -> None:
        self._route = route
        self._target = target
        self._context = context
        self._make_writer = make_writer
        self._rows: SinkWriter | None = None
        #: Letters are no rows: they are counted by themselves.
        self._metrics = Metrics()
        self.writer: SinkWriter | None = None

    def attach(self, rows: SinkWriter) -> None:
        """Names the writer of the rows."""
        self._rows = rows

    def put(self, rows: pa.RecordBatch, reasons: Sequence[str], fields: Mapping[str, Any]) -> None:
        """Sends rows that were refused."""
        known = {"connector": self._route.connector, "stage": "sink", "source": self._target or None}
        fields = {**known, **fields}
        if "value" not in fields:
            fields["value"] = rows_as_json(rows)
        self.send(letters(pa.array(reasons, pa.string()), **fields))

    def send(self, marked: pa.StructArray) -> None:
        """Sends letters, none of them null."""
        columns = [column.cast(field.type) for column, field in zip(marked.flatten(), LETTER_SCHEMA, strict=True)]
        if self.writer is None:
            assert self._rows is not None
            self.writer = self._context.retry.call(
                lambda: self._make_writer(self._rows, self._metrics),  # type: ignore[arg-type]
                "opening a writer of dead letters",
                self._context.metrics,
            )
        self.writer.write(self._route.form.rows(pa.RecordBatch.from_arrays(columns, schema=LETTER_SCHEMA)))
        self._context.metrics.add("dead_letters", len(marked))

    def count(self) -> None:
        """Adds what the writer has counted, except for its rows."""
        for name, amount in self._metrics.take().items():
            if name != "rows_written":
                self._context.metrics.add(name, amount)


class _SplittingWriter(SinkWriter):
    """Memory: that of both writers, and once more the rows of a batch in which a letter is."""

    def __init__(self, rows: SinkWriter, letter_box: _LetterBox, route: LetterRoute) -> None:
        self._rows = rows
        self._letter_box = letter_box
        self._column = -1 if route.column is None else route.schema.get_field_index(route.column)
        letter_box.attach(rows)

    def write(self, batch: pa.RecordBatch) -> None:
        """Sends each row to one of the two."""
        if self._column >= 0:
            column = batch.column(self._column)
            batch = batch.remove_column(self._column)
            if column.null_count < len(column):
                self._letter_box.send(column.filter(column.is_valid()))
                batch = batch.filter(column.is_null())
        self._rows.write(batch)

    def flush(self) -> None:
        self._rows.flush()
        if self._letter_box.writer is not None:
            self._letter_box.writer.flush()
        self._letter_box.count()

    def close(self) -> None:
        try:
            self._rows.close()
        finally:
            if self._letter_box.writer is not None:
                self._letter_box.writer.close()


class _CommittingWriter(_SplittingWriter, CommittingSinkWriter[Owned, Owned]):
    def flush(self) -> None:
        self._rows.flush()

    def prepare_commit(self) -> PreparedCommit[Owned, Owned]:
        """Letters come last: rows may be refused until they are durable."""
        prepared = _prepared(_ROWS, self._rows)
        writer = self._letter_box.writer
        if writer is not None:
            writer.flush()
            other = _prepared(_LETTERS, writer)
            prepared.committables += other.committables
            prepared.states += other.states
            prepared.sequences_used += other.sequences_used
        self._letter_box.count()
        return prepared

    def abort(self) -> None:
        for writer in (self._rows, self._letter_box.writer):
            if isinstance(writer, CommittingSinkWriter):
                writer.abort()


def _prepared(member: str, writer: SinkWriter) -> PreparedCommit[Owned, Owned]:
    if not isinstance(writer, CommittingSinkWriter):
        return PreparedCommit()
    own = writer.prepare_commit()
    return PreparedCommit(
        [Owned(member, one) for one in own.committables], [Owned(member, one) for one in own.states], own.sequences_used
    )
