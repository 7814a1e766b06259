"""What leads from the sources of a pipeline file to its sinks: names, order, modes, and what nothing uses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from penstock.checkpoint import check_sink_name
from penstock.cli._check_targets import check_targets, sink_values
from penstock.cli._located import Located
from penstock.cli._pipeline import Commit, Reading, SinkSpec, ViewSpec
from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint

__all__ = ["check_flow", "tables_of", "without_texts"]

_VIEW_NAME = re.compile(r"[A-Za-z_]\w*")
#: Comments and texts of SQL, in which no table is named.
_NO_NAMES = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
#: ``FROM`` with a column after it, and not a table.
_OTHER_FROM = re.compile(r"\b(?:extract|trim|substring|substr|overlay)\s*\([^()]*\bfrom\b|\bdistinct\s+from\b", re.I)
_TABLE = re.compile(r"\b(?:from|join)\s+`?([A-Za-z_]\w*)`?(?![\w.(])", re.IGNORECASE)
_CTE = re.compile(r"(?:\bwith|,)\s*`?([A-Za-z_]\w*)`?\s*(?:\([^()]*\)\s*)?as\s*\(", re.IGNORECASE)
#: What queries begin with, in brackets or not.
_QUERIES = ("select", "with", "from", "values", "table", "map", "reduce")
#: Sinks of Spark's own that have no other mode.
_APPENDING = ("csv", "json", "orc", "parquet", "text")
_WORD = re.compile(r"\w+")
#: Deliveries that commit nothing, in whichever connector.
_WITHOUT_COMMIT = ("none", "at-least-once")


def check_flow(reading: Reading) -> None:
    """Notes every mistake in the document."""
    _check_names(reading)
    _check_order(reading)
    _check_sinks(reading)
    if all(mistake.is_warning for mistake in reading.document.mistakes):
        _check_use(reading)


def _names(reading: Reading) -> Iterator[tuple[str, Located]]:
    for source in reading.sources:
        yield source.view, source.name_at
    for view in reading.views:
        if view.name:
            yield view.name, view.name_at


def _check_names(reading: Reading) -> None:
    """Spark compares names of views without regard to case."""
    first: dict[str, Located] = {}
    for name, at in _names(reading):
        if not _VIEW_NAME.fullmatch(name):
            at.complain(f"'{name}' can't name a view: letters, digits and underscores only")
        if name.lower() in first:
            at.complain(f"the name '{name}' is given twice (first in line {first[name.lower()].line})")
        first.setdefault(name.lower(), at)


def tables_of(sql: str) -> set[str]:
    """Returns the tables that a query names after FROM and JOIN, in lower case, without its own (WITH)."""
    text = without_texts(sql)
    own = {name.lower() for name in _CTE.findall(text)}
    return {name.lower() for name in _TABLE.findall(text)} - own


def without_texts(sql: str) -> str:
    """Returns a query without its comments and texts, and without each ``FROM`` that has no table after it."""
    return _OTHER_FROM.sub(" ", _NO_NAMES.sub(" ", sql))


def _check_order(reading: Reading) -> None:
    """A view uses what stands above it. So there are no circles."""
    later = {view.name.lower(): view.name for view in reading.views if view.name}
    above = {source.view.lower() for source in reading.sources}
    for view in reading.views:
        used = tables_of(view.sql or "")
        _check_is_query(view)
        if view.name.lower() in used - above:
            view.name_at.complain(f"'{view.name}' uses itself")
        above.add(view.name.lower())
        for name in sorted(used & later.keys() - above):
            view.name_at.complain(f"'{view.name}' uses '{later[name]}', which stands below it: write that one first")
        _check_tables(view, used - above - later.keys(), above - {view.name.lower()})


def _check_is_query(view: ViewSpec) -> None:
    """Notes a statement that Spark would carry out at once, and a slip in its first word."""
    first = _WORD.search(without_texts(view.sql or ""))
    if first is not None and first[0].lower() not in _QUERIES:
        begun = f"'{view.name or 'transform'}' begins with '{first[0]}'"
        view.at.complain(f"{begun}, and a view is a query: write SELECT first")


def _check_tables(view: ViewSpec, unknown: set[str], above: set[str]) -> None:
    """Warns of a table that may be a slip: the catalog of Spark may have it."""
    for name in sorted(unknown):
        near = difflib.get_close_matches(name, sorted(above), n=1, cutoff=0.75)
        if near:
            view.at.complain(
                f"'{name}' is no source and no view above it, only a table of Spark's; did you mean '{near[0]}'?",
                is_warning=True,
            )


def _check_sinks(reading: Reading) -> None:
    known = {name.lower(): name for name, _ in _names(reading)}
    modes = {sink.mode for sink in reading.sinks}
    for sink in reading.sinks:
        if sink.view and sink.view.lower() not in known:
            hint = nearest_hint(sink.view, known.values()) or f"; known: {', '.join(known.values())}"
            sink.view_at.complain(f"there is no source and no view '{sink.view}'{hint}")
        if reading.commit in (Commit.TOGETHER, Commit.EACH):
            _check_shared(sink, reading.commit, modes)
        elif sink.mode == "update" and sink.is_ours:
            sink.mode_at.complain(
                "a query of its own has no mode 'update' for a sink of Penstock: write 'sinks' in place of 'sink', "
                "with 'commit: together' or 'each', or take mode 'append'"
            )
        elif sink.mode != "append" and sink.format.lower() in _APPENDING:
            sink.mode_at.complain(f"{sink.format} takes mode 'append' only: files that were written stay as they are")
        if reading.commit is not None:
            _check_name(sink)
    check_targets(reading)


def _check_name(sink: SinkSpec) -> None:
    try:
        check_sink_name(sink.name)
    except BadConfigurationError:
        sink.at.complain(f"'{sink.name}' can't name a sink: up to 64 letters, digits, - and _, the first no sign")


def _check_shared(sink: SinkSpec, commit: Commit, modes: set[str]) -> None:
    """Checks a sink that gets its batches from the same query as others."""
    if sink.mode == "complete":
        sink.mode_at.complain("mode 'complete' needs a query of its own: set 'commit: separate'")
    elif len(modes) > 1:
        sink.mode_at.complain(
            f"sinks of one query have one mode, and here are {' and '.join(sorted(modes))}: set the same, or "
            "'commit: separate'"
        )
    if not sink.is_ours:
        what = f"{sink.format} is not a sink of Penstock: "
        if commit is Commit.TOGETHER:
            sink.format_at.complain(f"{what}it can't be committed with others; set 'commit: each' or 'separate'")
        else:
            sink.format_at.complain(f"{what}a batch that is run again is written to it again", is_warning=True)
        return
    delivery = sink_values(sink).get("delivery")
    if delivery in _WITHOUT_COMMIT:
        given = next((places for name, places in sink.option_places.items() if name.lower() == "delivery"), None)
        place = sink.format_at if given is None else given[1]
        place.complain(
            f"sink {sink.format} commits nothing with delivery={delivery}: set 'delivery: exactly-once', or "
            "'commit: separate'"
        )


def _check_use(reading: Reading) -> None:
    """Warns of what no view and no sink uses. A function may use anything above it."""
    taken = {sink.view.lower() for sink in reading.sinks}
    last_function = max((number for number, view in enumerate(reading.views) if view.python), default=-1)
    sources = [(source.view, source.name_at, -1) for source in reading.sources]
    views = [(view.name, view.name_at, number) for number, view in enumerate(reading.views)]
    for name, at, number in [*sources, *views]:
        after = reading.views[number + 1 :]
        if name.lower() not in taken and last_function <= number and not _is_named(name, after):
            at.complain(f"nothing uses '{name or 'transform'}'", is_warning=True)


def _is_named(name: str, views: list[ViewSpec]) -> bool:
    return any(name.lower() in map(str.lower, _WORD.findall(view.sql or "")) for view in views)
