"""Writes inside the function of ``foreachBatch``: which batch they belong to, and which sink of it they are.

Spark runs a batch again after a crash, and calls the function again with the same id. A write that names its query, its
batch and its sink is then skipped if it was decided, and done if it was not.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.checkpoint import check_sink_name
from penstock.errors import BadConfigurationError
from penstock.printable import get_logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter

__all__ = [
    "IN_BATCH_OPTIONS",
    "RunningBatch",
    "as_attempt",
    "attempting",
    "batch_writer",
    "check_format",
    "run_of_attempt",
    "telling_the_run",
]

_log = get_logger("penstock")

_CHECKPOINT, _BATCH, _SINK = "checkpointLocation", "batchId", "sinkName"
#: Spark's names of the query whose function writes, and of its run. Set where the user's process knows them.
_QUERY, _RUN = "penstock.batch.query", "penstock.batch.run"
#: Of a write to a member of a group: which one, and the plan that was made for all of them.
_MEMBER, _PLAN = "penstock.batch.member", "penstock.batch.plan"
#: Options of a batch write that no connector declares.
IN_BATCH_OPTIONS = (_CHECKPOINT, _BATCH, _SINK, _QUERY, _RUN, _MEMBER, _PLAN)
#: Spark keeps them as properties of the thread that runs a query's batches.
_QUERY_PROPERTY, _RUN_PROPERTY = "sql.streaming.queryId", "spark.jobGroup.id"
#: Over Connect the function runs in a process of its own, one for each run of the query.
_THIS_PROCESS = uuid.uuid4().hex

#: Attribute of a writer: the run (empty where it is not known), the checkpoint, the sink's name and the batch.
_WRITE = "_penstock_write"

_warned: set[str] = set()
#: The last batch that each sink of a batch function was written for, by checkpoint and name.
_attempts: dict[tuple[str, str], _Attempts] = {}


@dataclass
class _Attempts:
    """Writes of a batch to one sink in one run: how many have failed, until one has returned."""

    run: str
    batch: int
    failures: int = 0
    has_returned: bool = False


@dataclass(frozen=True)
class RunningBatch:
    """One write of a batch function. ``query`` and ``run`` are Spark's ids, empty where they are not known.

    ``member`` is the sink of a group that is written to, and ``plan`` that of the group's batch, as JSON.
    """

    checkpoint: str
    number: int
    sink_name: str
    query: str = ""
    run: str = ""
    member: str = ""
    plan: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str], owner: str) -> RunningBatch | None:
        """Returns what the options of a write say; ``None`` for one that belongs to no batch.

        Raises BadConfigurationError if they say only a part of it.
        """
        given = {name.lower(): text for name, text in options.items()}
        values = {name: given.get(name.lower(), "") for name in IN_BATCH_OPTIONS}
        named = [name for name in (_CHECKPOINT, _BATCH, _SINK) if values[name]]
        if not named:
            _warn_of_repeats(values[_RUN], owner)
            return None
        missing = [name for name in (_CHECKPOINT, _BATCH, _SINK) if not values[name]]
        if missing:
            raise BadConfigurationError(
                f"{owner}: a write with '{named[0]}' belongs to a batch of a stream, and needs "
                f"'{missing[0]}' as well: penstock.batch_writer(df, batch_id, checkpoint=..., name=...) sets them all"
            )
        if not values[_BATCH].isdigit():
            raise BadConfigurationError(
                f"{owner}: option 'batchId' is '{values[_BATCH]}': give the id that Spark passes to the function"
            )
        name = check_sink_name(values[_SINK])
        return cls(values[_CHECKPOINT], int(values[_BATCH]), name, *(values[one] for one in IN_BATCH_OPTIONS[3:]))

    def check_query(self, query_id: str) -> None:
        """Raises BadConfigurationError if the checkpoint is another query's than the one that runs this batch."""
        if self.query and self.query != query_id:
            raise BadConfigurationError(
                f"option 'checkpointLocation': {self.checkpoint} is the checkpoint of query {query_id}, and this batch "
                f"is one of query {self.query}: give the checkpoint of that one"
            )


def _warn_of_repeats(run: str, owner: str) -> None:
    if run and run not in _warned:
        _warned.add(run)
        _log.warning(
            "%s is written to inside foreachBatch without 'batchId': Spark runs a batch again after a failure, and its "
            "rows are then duplicated. penstock.batch_writer(df, batch_id, checkpoint=..., name=...) prevents that",
            owner,
        )


def batch_writer(df: DataFrame, batch_id: int, *, checkpoint: str, name: str) -> DataFrameWriter:
    """Returns the writer of ``df`` for the function of ``foreachBatch``, a ``DataFrameWriter`` in mode ``append``: what
    it writes with ``.format("penstock.…")`` is there once, however often Spark runs the batch.

    ``checkpoint`` is the ``checkpointLocation`` of the streaming query, ``batch_id`` what Spark passes to the function.
    ``name`` (letters, digits, ``-`` and ``_``) names the sink: it stays the same from batch to batch, and every write
    of a batch has another one. Each name has a decision log of its own, so that after a crash each sink is written to
    or skipped, whichever is right for it. What is written is visible when ``save()`` returns.

    Raises BadConfigurationError for a name that can't be one; ``save()`` raises it if the batch is not the one that
    runs, or the name was used for it before. Any thread of the driver; classic sessions and Spark Connect.
    """
    writer = df.write.mode("append").option(_CHECKPOINT, checkpoint)
    writer = writer.option(_BATCH, str(int(batch_id))).option(_SINK, check_sink_name(name))
    is_classic = hasattr(df, "_jdf")  # its writer learns the run by its format
    if not is_classic:
        from penstock.spark._writers import note_frame_writers

        # The function's process has not called register().
        note_frame_writers(type(writer))
    write = "" if is_classic else _THIS_PROCESS, checkpoint, name, int(batch_id)
    setattr(writer, _WRITE, write)
    return writer if is_classic else writer.option(_RUN, run_of_attempt(*write))


def run_of_attempt(run: str, checkpoint: str, name: str, batch_id: int) -> str:
    """Returns what a decision holds as its run, for a write to the sink ``name``. It is another one after a failure.

    The protocol refuses a second write of a batch in one run. A write whose error the function has caught may have been
    decided; the next one is then its repetition, and is skipped.
    """
    failures = _attempts_of(run, checkpoint, name, batch_id).failures
    return f"{run}.{failures}" if run and failures else run


@contextlib.contextmanager
def attempting(run: str, checkpoint: str, name: str, batch_id: int) -> Iterator[None]:
    """The block writes to the sink ``name``."""
    attempts = _attempts_of(run, checkpoint, name, batch_id)
    try:
        yield
    except BaseException:
        attempts.failures += not attempts.has_returned
        raise
    attempts.has_returned = True


def _attempts_of(run: str, checkpoint: str, name: str, batch_id: int) -> _Attempts:
    found = _attempts.get((checkpoint, name))
    if found is None or (found.run, found.batch) != (run, batch_id):
        found = _attempts[checkpoint, name] = _Attempts(run, batch_id)
    return found


def as_attempt(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``DataFrameWriter.save`` and its like, for writers of a batch function."""
    signature = inspect.signature(save)

    @functools.wraps(save)
    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        if getattr(writer, _WRITE, None) is None:
            return save(writer, *args, **given)
        if source := signature.bind(writer, *args, **given).arguments.get("format"):
            writer.format(source)  # by which it learns the run
        write = getattr(writer, _WRITE)
        if write[0]:
            # A writer whose save() has failed may be used again.
            writer.option(_RUN, run_of_attempt(*write))
        with attempting(*write):
            return save(writer, *args, **given)

    return wrapped


def check_format(writer: Any, source: str) -> None:
    """Raises BadConfigurationError for a writer of :func:`batch_writer` whose format is not Penstock's."""
    if hasattr(writer, _WRITE) and not source.lower().startswith("penstock."):
        raise BadConfigurationError(
            f"penstock.batch_writer writes to sinks of Penstock once, and {source or 'what is written to'} is none: "
            "write to it with df.write, which may write a batch again after a crash"
        )


def in_group(writer: DataFrameWriter, batch: RunningBatch, member: str, plan: str) -> DataFrameWriter:
    """Returns ``writer`` with the options of a write to a member of a group."""
    texts = (batch.checkpoint, str(batch.number), batch.sink_name, batch.query, batch.run, member, plan)
    return writer.options(**dict(zip(IN_BATCH_OPTIONS, texts, strict=True)))


def run_of(context: Any) -> tuple[str, str]:
    """Returns Spark's ids of the query whose function this thread runs, and of its run. ``context`` is that of a
    classic session; over Connect (None) only the run is known.
    """
    if context is None:
        return "", _THIS_PROCESS
    query = context.getLocalProperty(_QUERY_PROPERTY)
    return (query, context.getLocalProperty(_RUN_PROPERTY) or "") if query else ("", "")


def telling_the_run(format_method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``DataFrameWriter.format`` of a classic session: our formats learn in which run of which query they are."""

    def wrapped(writer: Any, source: str) -> Any:
        answer = format_method(writer, source)
        if source.lower().startswith("penstock."):
            query, run = run_of(writer._spark.sparkContext)
            if query:
                writer.option(_QUERY, query)
                if write := getattr(writer, _WRITE, None):
                    write = run, *write[1:]
                    setattr(writer, _WRITE, write)
                writer.option(_RUN, run_of_attempt(*write) if write else run)
        return answer

    return wrapped
