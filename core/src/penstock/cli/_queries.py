"""The streaming queries of a pipeline: one for its only sink, one for all of its sinks, or one for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli._frames import Views
from penstock.cli._pipeline import Commit, Pipeline, SinkSpec
from penstock.cli._row_by_row import row_by_row
from penstock.errors import BadConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["GROUP", "PlannedQuery", "plan_queries", "planned_queries"]

#: The name of the decision log of sinks that are committed together.
GROUP = "all"


@dataclass(frozen=True, eq=False)
class PlannedQuery:
    """A query, its checkpoint, and the sinks it writes to. ``label`` is empty for the only one."""

    label: str
    name: str
    checkpoint: str
    sinks: tuple[SinkSpec, ...]
    commit: Commit | None

    @property
    def logs(self) -> tuple[str, ...]:
        """The names of the decision logs below the checkpoint; ``""`` is that of an only sink."""
        if self.commit is None:
            return ("",)
        return (GROUP,) if self.commit is Commit.TOGETHER else tuple(sink.name for sink in self.sinks)

    @property
    def decides(self) -> bool:
        """Whether all of its sinks are Penstock's, and so may have decision logs."""
        return all(sink.is_ours for sink in self.sinks)


def planned_queries(pipeline: Pipeline) -> list[PlannedQuery]:
    """Returns the queries of a pipeline, in the order of its sinks. Starts nothing."""
    if pipeline.commit is not Commit.SEPARATE:
        return [PlannedQuery("", pipeline.name, pipeline.checkpoint, pipeline.sinks, pipeline.commit)]
    below = pipeline.checkpoint.rstrip("/")
    return [
        PlannedQuery(sink.name, f"{pipeline.name}-{sink.name}", f"{below}/{sink.name}", (sink,), None)
        for sink in pipeline.sinks
    ]


def plan_queries(spark: SparkSession, pipeline: Pipeline) -> dict[PlannedQuery, DataStreamWriter]:
    """Returns what starts each query. Raises BadConfigurationError for sinks that one query can't feed."""
    views = Views(spark, pipeline)
    for sink in pipeline.sinks:
        if not views.frame(sink.view).isStreaming:
            raise BadConfigurationError(
                f"{_sink(sink)} takes from {_view(sink.view)}, which no stream leads to: read a source of it with "
                "'read: stream'"
            )
    return {one: _writer(one, views, pipeline) for one in planned_queries(pipeline)}


def _writer(query: PlannedQuery, views: Views, pipeline: Pipeline) -> DataStreamWriter:
    first = query.sinks[0]
    if query.commit is None:
        writer = views.frame(first.view).writeStream.format(first.format).options(**first.options)
    else:
        base, between = _base(query.sinks, views)
        writer = views.frame(base).writeStream.foreachBatch(_function(query, views, base, between))
    writer = writer.outputMode(first.mode).queryName(query.name).option("checkpointLocation", query.checkpoint)
    if pipeline.trigger.available_now:
        return writer.trigger(availableNow=True)
    if pipeline.trigger.processing_time is not None:
        return writer.trigger(processingTime=pipeline.trigger.processing_time)
    return writer


def _base(sinks: tuple[SinkSpec, ...], views: Views) -> tuple[str, set[str]]:
    """Returns the view whose batches feed all ``sinks``, and the views that are made of each batch of it."""
    ways = {sink.name: row_by_row(sink.view, views.frame(sink.view)) for sink in sinks}
    first, *others = ways.values()
    base = next((name for name in first if all(name in way for way in others)), None)
    if base is None:
        one, other = _apart(sinks, ways)
        raise BadConfigurationError(
            f"sinks '{one.name}' and '{other.name}' take from different streams, {_view(one.view)} and "
            f"{_view(other.view)}, and one query can't feed both: set 'commit: separate', or take from views that "
            "follow row by row from one view"
        )
    # As it is written in the file.
    written = next(name for name in views.frames if name.lower() == base)
    return written, {name for way in ways.values() for name in way[: way.index(base)]}


def _apart(sinks: tuple[SinkSpec, ...], ways: Mapping[str, list[str]]) -> tuple[SinkSpec, SinkSpec]:
    """Returns two sinks that have no view in common, or else the first and the last."""
    pairs = [(one, other) for one in sinks for other in sinks if not set(ways[one.name]) & set(ways[other.name])]
    return pairs[0] if pairs else (sinks[0], sinks[-1])


def _function(query: PlannedQuery, views: Views, base: str, between: set[str]) -> Callable[[DataFrame, int], None]:
    """Returns the function of ``foreachBatch``. The rows of ``base`` are computed once for all sinks."""
    from penstock import SinkGroup, batch_writer

    sinks = {sink.name: sink for sink in query.sinks}
    group = None
    if query.commit is Commit.TOGETHER:
        formats = {name: (sink.format, sink.options) for name, sink in sinks.items()}
        group = SinkGroup(GROUP, checkpoint=query.checkpoint, sinks=formats)

    def write(rows: DataFrame, batch_id: int) -> None:
        made = {name.lower(): frame for name, frame in views.again(base, rows, between).items()}
        if group is not None:
            with group.batch(rows, batch_id) as batch:
                for name, sink in sinks.items():
                    batch.write(name, made[sink.view.lower()])
            return
        for name, sink in sinks.items():
            frame = made[sink.view.lower()]
            if sink.is_ours:
                writer = batch_writer(frame, batch_id, checkpoint=query.checkpoint, name=name)
            else:
                writer = frame.write.mode("append")
            writer.format(sink.format).options(**sink.options).save()

    def write_once_computed(rows: DataFrame, batch_id: int) -> None:
        if len(sinks) > 1:
            rows.persist()
        try:
            write(rows, batch_id)
        finally:
            rows.unpersist()

    return write_once_computed


def _sink(sink: SinkSpec) -> str:
    return f"sink '{sink.name}'" if sink.name else "the sink"


def _view(name: str) -> str:
    return f"'{name}'" if name else "the result of 'transform'"
