"""``penstock inspect CHECKPOINT``: a checkpoint in words and a few marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone

from rich.console import Console

from penstock.cli._checkpoint import CheckpointView, DecisionView, SinkView, SourceView, read_checkpoint
from penstock.cli._damage import say_damage
from penstock.cli._draw import human_bytes, plural, sparkline
from penstock.cli._screen import Screen, as_text, say_json

__all__ = ["show_checkpoint"]

_DECISIONS_SHOWN = 5
_PIECES_SHOWN = 8
_CHAIN_LENGTH = 32
#: By kind of a decision: its mark, and what it is called.
_MARKS = {
    "claim": ("▸", "start"),
    "batch": ("●", "batch"),
    "roll": ("◆", "roll"),
    "close": ("■", "end"),
    "lost": ("✗", "given up"),
}
_LEGEND = " ".join([*(f"{mark} {word}" for mark, word in _MARKS.values()), "○ pending"])


def show_checkpoint(checkpoint: str, options: Mapping[str, str], *, as_json: bool) -> int:
    """The command. Raises what :func:`read_checkpoint` raises."""
    view = read_checkpoint(checkpoint, options)
    if as_json:
        say_json(asdict(view))
    else:
        _Page(Screen()).show(view)
    return say_damage(checkpoint, options)


class _Page:
    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, view: CheckpointView) -> None:
        self._row("checkpoint", f"[bold]{as_text(view.checkpoint)}[/]")
        self._row("query", as_text(view.query_id))
        self._batches(view)
        for number, source in enumerate(view.sources):
            self._row(f"source {number}" if len(view.sources) > 1 else "source", _source_words(source))
        for one in view.every_sink:
            self._sink(one)
        if not view.sinks:
            self._list("open", view.open_pieces, "nothing")
        self._list("next start", view.next_start, "")
        for warning in view.warnings:
            self._console.print(f"[yellow]![/] {as_text(warning)}", soft_wrap=True)

    def _sink(self, view: SinkView) -> None:
        what = as_text(view.sink) if view.sink else f"[dim]{as_text(view.sink_problem)}[/]"
        self._row("sink", f"[bold]{as_text(view.name)}[/], {what}" if view.name else what)
        if view.decisions:
            self._decisions(view.decisions)

    def _row(self, name: str, text: str) -> None:
        self._console.print(f"[dim]{name:<11}[/] {text}", soft_wrap=True)

    def _list(self, name: str, texts: list[str], nothing: str) -> None:
        shown = [as_text(text) for text in texts[:_PIECES_SHOWN]]
        if len(texts) > _PIECES_SHOWN:
            shown.append(f"[dim]and {len(texts) - _PIECES_SHOWN:,} more[/]")
        for index, text in enumerate(shown or [nothing]):
            self._row("" if index else name, text)

    def _batches(self, view: CheckpointView) -> None:
        if view.planned_batch < 0:
            self._row("batches", "none planned yet")
            return
        committed = f"batch {view.committed_batch} committed" if view.committed_batch >= 0 else "none committed"
        when = f" at {_time(view.planned_at_ms)}" if view.planned_at_ms else ""
        self._row("batches", f"batch {view.planned_batch} planned{when}, {committed}")
        if view.watermark_ms:
            self._row("watermark", _time(view.watermark_ms))

    def _decisions(self, decisions: list[DecisionView]) -> None:
        chain = decisions[-_CHAIN_LENGTH:]
        marks = "─".join(_mark(decision) for decision in chain)
        self._row("decisions", f"{marks}  [dim]{_LEGEND}[/]")
        rows = [float(decision.rows or 0) for decision in chain]
        if any(rows):
            self._row("rows", f"[cyan]{'─'.join(sparkline(rows, _CHAIN_LENGTH)).replace('─', ' ')}[/]")
        for decision in decisions[-_DECISIONS_SHOWN:]:
            self._row("", _decision_words(decision))
            if not decision.done:
                for text in decision.publishes[:_PIECES_SHOWN]:
                    self._row("", f"    publishes {as_text(text)}")


def _mark(decision: DecisionView) -> str:
    if not decision.done:
        return "[yellow]○[/]"
    return f"[{'red' if decision.kind == 'lost' else 'green'}]{_MARKS.get(decision.kind, '?')[0]}[/]"


def _decision_words(decision: DecisionView) -> str:
    state = "[green]finished[/]" if decision.done else "[yellow]pending[/]"
    what = (
        f"batch {decision.batch}"
        if decision.kind == "batch"
        else f"{as_text(_MARKS.get(decision.kind, ('?', decision.kind))[1])} after batch {decision.batch}"
    )
    parts = [f"{decision.number}: {what}, {state}, {_time(decision.time_ms)}"]
    if decision.rows is not None:
        parts.append(plural(decision.rows, "row"))
    if decision.bytes is not None:
        parts.append(human_bytes(decision.bytes))
    parts.append(
        f"{len(decision.publishes)} to publish" if not decision.done else f"{len(decision.publishes)} published"
    )
    return ", ".join(parts)


def _source_words(source: SourceView) -> str:
    if source.kind != "penstock":
        text = source.text if len(source.text) <= 120 else source.text[:119] + "…"
        return f"offset {as_text(text)}" if text != "-" else "no offset in this batch"
    if source.positions:
        ranges = plural(source.splits or 0, "range")
        return f"{ranges} in the last batch, read up to {_position_words(source.positions)}"
    if not source.splits:
        return f"offset {source.sequence}, nothing in the last batch"
    end = ", the last of its run" if source.last else ""
    return f"offset {source.sequence}: {plural(source.splits, 'split')}, {human_bytes(source.bytes or 0)} in it{end}"


def _position_words(streams: Mapping[str, Mapping[str, int]]) -> str:
    """``orders 0→12 1→7, returns 0→3``: the next position to read of each partition."""
    words = []
    for stream, positions in streams.items():
        numbers = [f"{partition}→{position:,}" for partition, position in positions.items()]
        more = [f"and {len(numbers) - _PIECES_SHOWN} more"] if len(numbers) > _PIECES_SHOWN else []
        words.append(" ".join([f"[cyan]{as_text(stream)}[/]", *numbers[:_PIECES_SHOWN], *more]))
    return ", ".join(words)


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "?"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # outside of the calendar
        return f"{milliseconds} ms"
