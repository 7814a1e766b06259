"""What a checkpoint holds, read without Spark: Spark's own logs and penstock's decision log."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock._commit import Link
from penstock.checkpoint import (
    LeftOpen,
    SparkLog,
    StoredQuery,
    chain_of,
    home_of,
    named_sinks,
    open_stored_query,
    query_id_of,
)
from penstock.errors import PenstockError
from penstock.serialization import MALFORMED
from penstock.sink import describe_state, state_serializer_of
from penstock.storage import Storage, open_storage

__all__ = ["CheckpointView", "DecisionView", "SinkView", "SourceView", "read_checkpoint"]


@dataclass(frozen=True)
class SourceView:
    """One source's offset in the last planned batch. ``kind`` is ``penstock`` or ``other``, whose text is not decoded.

    ``splits``, ``bytes`` and ``last`` (nothing more comes in that run) are known of penstock sources only, and
    ``positions`` (stream → partition → the next position to read) of logs.
    """

    kind: str
    sequence: int | None = None
    splits: int | None = None
    bytes: int | None = None
    last: bool = False
    text: str = ""
    positions: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class DecisionView:
    """One link of the decision log; ``publishes`` describes each committable in the sink's words."""

    number: int
    kind: str
    batch: int
    done: bool
    time_ms: int
    rows: int | None
    bytes: int | None
    publishes: list[str]


@dataclass
class SinkView:
    """One sink. ``name`` is that of one which a batch function writes to; a query's only sink has none."""

    name: str = ""
    sink: str | None = None
    sink_problem: str = ""
    decisions: list[DecisionView] = field(default_factory=list)
    decided_batch: int = -1
    open_pieces: list[str] = field(default_factory=list)

    @property
    def pending(self) -> DecisionView | None:
        """The decision that is not carried out yet, if there is one."""
        return next((decision for decision in self.decisions if not decision.done), None)


@dataclass
class CheckpointView(SinkView):
    """All of it, ready for JSON: a query with its only sink, or with those of its batch function in ``sinks``.

    Batches are -1 where there is none; times are milliseconds since 1970, UTC.
    """

    checkpoint: str = ""
    query_id: str = ""
    planned_batch: int = -1
    committed_batch: int = -1
    planned_at_ms: int | None = None
    watermark_ms: int | None = None
    sources: list[SourceView] = field(default_factory=list)
    sinks: list[SinkView] = field(default_factory=list)
    next_start: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def every_sink(self) -> list[SinkView]:
        """Its only sink, or those of its batch function."""
        return self.sinks or [self]


def read_checkpoint(checkpoint: str, options: Mapping[str, str]) -> CheckpointView:
    """Reads ``checkpoint`` and changes nothing. Raises BadConfigurationError if it is not a query's checkpoint."""
    storage, path = open_storage(checkpoint, options)
    view = CheckpointView(checkpoint=checkpoint, query_id=query_id_of(storage, path))
    spark_log = SparkLog(storage, path)
    view.planned_batch, view.committed_batch = spark_log.last("offsets"), spark_log.last("commits")
    planned = spark_log.find(view.planned_batch)
    if planned is not None:
        _read_offsets(view, planned.offsets.decode("utf-8", "replace"))
    view.sinks = [SinkView(name) for name in named_sinks(storage, path)]
    for one in view.every_sink:
        _read_sink(one, storage, path, _stored_sink(one, checkpoint, options))
    _foretell(view)
    return view


def _read_offsets(view: CheckpointView, text: str) -> None:
    """Spark's form: a version, a line of metadata, then a line for each source."""
    lines = text.split("\n")
    about = _json_object(lines[1]) if len(lines) > 1 else {}
    view.planned_at_ms = _number(about.get("batchTimestampMs"))
    view.watermark_ms = _number(about.get("batchWatermarkMs")) or None
    view.sources = [_source_view(line) for line in lines[2:] if line.strip()]


def _source_view(line: str) -> SourceView:
    offset = _json_object(line)
    if "penstock" not in offset:
        return SourceView("other", text=line)
    splits = _object(offset.get("splits"))
    return SourceView(
        "penstock",
        sequence=_number(offset.get("seq")),
        splits=_number(splits.get("count")) or 0,
        bytes=_number(splits.get("bytes")) or 0,
        last=bool(offset.get("end")),
        positions=_positions(_object(offset.get("enumerator"))),
    )


def _positions(enumerator: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Returns what the log template stores as JSON; other sources store something else."""
    try:
        stored = _json_object(base64.b64decode(enumerator.get("data", "")).decode())
    except MALFORMED:
        return {}
    return {
        stream: {partition: number for partition, number in _object(found).items() if _number(number) is not None}
        for stream, found in _object(stored.get("positions")).items()
        if isinstance(found, dict)
    }


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _json_object(text: str) -> dict[str, Any]:
    try:
        return _object(json.loads(text))
    except MALFORMED:
        return {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _stored_sink(view: SinkView, checkpoint: str, options: Mapping[str, str]) -> StoredQuery | None:
    """Returns the sink that describes what it left; without it (not installed any more, say) only numbers are shown."""
    try:
        stored = open_stored_query(checkpoint, options, sink_name=view.name)
    except PenstockError as error:
        view.sink_problem = str(error)
        return None
    view.sink = stored.connector_name if stored.is_group else f"penstock.{stored.connector_name}"
    return stored


def _read_sink(view: SinkView, storage: Storage, checkpoint: str, stored: StoredQuery | None) -> None:
    chain = chain_of(storage, home_of(checkpoint, view.name))
    links, head = chain.links(), chain.head()
    view.decisions = [_decision_view(link, done=link.number != head.pending, stored=stored) for link in links]
    view.decided_batch = head.link.batch
    for item in head.link.states:
        if stored is None:
            view.open_pieces.append("an open piece (its connector can't be loaded)")
        else:
            view.open_pieces.append(describe_state(stored.sink, state_serializer_of(stored.sink).unpack(item.payload)))


def _decision_view(link: Link, *, done: bool, stored: StoredQuery | None) -> DecisionView:
    committables = [committable for output in link.outputs for committable in output.committables]
    if stored is None:
        publishes = ["something (its connector can't be loaded)"] * len(committables)
    else:
        sink = stored.sink
        publishes = [sink.describe_committable(sink.committable_serializer.unpack(one)) for one in committables]
    return DecisionView(
        number=link.number,
        kind=link.kind.value,
        batch=link.batch,
        done=done,
        time_ms=link.time_ms,
        rows=link.metrics.get("rows_written"),
        bytes=link.metrics.get("bytes_written"),
        publishes=publishes,
    )


def _foretell(view: CheckpointView) -> None:
    """Says what the next start does, in order, and what is left undone without one."""
    for one in view.every_sink:
        if one.pending is not None:
            of = f" of {one.name}" if one.name else ""
            view.next_start.append(f"publishes the pending decision {one.pending.number}{of}")
    pending = sum(one.pending is not None for one in view.every_sink)
    if left := LeftOpen(view.checkpoint, pending, sum(len(one.open_pieces) for one in view.every_sink)):
        view.warnings.append(str(left))
    view.next_start.append(_next_batch(view))
    if view.open_pieces:
        view.next_start.append("carries the open pieces on until they are due")


def _next_batch(view: CheckpointView) -> str:
    planned, committed = view.planned_batch, view.committed_batch
    if planned < 0:
        return "reads from the beginning: no batch was planned yet"
    if planned <= committed:
        return f"continues with batch {committed + 1}"
    if view.sinks:
        skips = ", ".join(one.name for one in view.sinks if one.decided_batch >= planned) or "no sink"
        return f"runs batch {planned} again with the same input, and skips what is decided: {skips}"
    if view.decided_batch >= planned:
        return f"runs batch {planned} again, but writes nothing: it is decided, Spark just has not noted it"
    return f"runs batch {planned} again with the same input: it was planned and neither decided nor committed"
