"""Columns of a pipeline file that are not there, and counts that never end: as far as that is known without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from penstock.cli._check_flow import tables_of, without_texts
from penstock.cli._check_targets import declared_options
from penstock.cli._columns import Fields, find_column, select_fields, shown_names, sql_outline
from penstock.cli._pipeline import Reading, SinkSpec, SourceSpec, ViewSpec
from penstock.options import names_object, nearest_hint

__all__ = ["check_columns", "check_named_columns"]

_AGGREGATE = re.compile(r"\bgroup\s+by\b|\b(?:count|sum|avg|mean|min|max)\s*\(", re.IGNORECASE)
_SUBQUERY = re.compile(r"\((?=\s*(?:select|with|from)\b)", re.IGNORECASE)


def check_columns(reading: Reading, of_sources: Mapping[str, Fields | None]) -> Mapping[str, Fields | None]:
    """Notes every mistake in the document. Returns the columns of each view, by its name in lower case; None: not
    known. ``of_sources`` has what the sources read, by view; None: not known."""
    known: dict[str, Fields | None] = {}
    for source in reading.sources:
        known[source.view.lower()] = _check_source(source, of_sources.get(source.view))
    for view in reading.views:
        made = _check_view(view, known)
        if view.watermark is not None and made is not None:
            _check_watermark(view, made)
        known[view.name.lower()] = made
    _check_aggregates(reading)
    return known


def _check_source(source: SourceSpec, fields: Fields | None) -> Fields | None:
    if source.flatten and fields is not None:
        fields = _flattened(source, fields)
    if source.select and fields is not None:
        made: dict[str, Fields | str] | None = {}
        for text, at in source.select:
            selected = select_fields([text], fields)
            for problem in selected.problems:
                at.complain(f"'{text}': {problem}")
            if made is not None and selected.fields is not None:
                made.update(selected.fields)
            else:
                made = None
        fields = made
    if source.watermark is not None and fields is not None:
        _check_watermark(source, fields)
    return fields


def _flattened(source: SourceSpec, fields: Fields) -> Fields | None:
    made: dict[str, Fields | str] = dict(fields)
    for text, at in source.flatten:
        try:
            inside = find_column([text], fields)
        except LookupError as error:
            at.complain(f"'flatten': {error.args[0]}")
            return None
        if isinstance(inside, str):
            at.complain(f"'flatten': '{text}' is no struct, so it has no fields")
            return None
        name = next(one for one in made if one.lower() == text.lower())
        others = {one.lower() for one in made if one != name}
        if twice := next((one for one in inside if one.lower() in others), None):
            at.complain(f"'flatten': two columns would be called '{twice}': use 'select', and rename one")
            return None
        before = list(made.items())
        place = [one for one, _ in before].index(name)
        made = dict([*before[:place], *inside.items(), *before[place + 1 :]])
    return made


def _check_watermark(owner: SourceSpec | ViewSpec, fields: Fields) -> None:
    assert owner.watermark is not None
    column = owner.watermark.column.strip("`")
    try:
        found = find_column([column], fields)
    except LookupError as error:
        owner.watermark.at.complain(f"'watermark': {error.args[0]}")
        return
    if isinstance(found, str) and found and not found.startswith("timestamp"):
        owner.watermark.at.complain(
            f"'watermark': column '{column}' is of type {found}, and event time is a timestamp: make one of it with "
            "'select' or in a view"
        )


def _check_view(view: ViewSpec, known: Mapping[str, Fields | None]) -> Fields | None:
    outline = sql_outline(view.sql) if view.sql else None
    fields = known.get(outline.table.lower()) if outline is not None else None
    if outline is None or fields is None:
        return None
    selected = select_fields(outline.items, fields, outline.alias)
    for problem in selected.problems:
        view.at.complain(f"'{view.name or 'transform'}' takes from '{outline.table}': {problem}")
    return selected.fields


def check_named_columns(sink: SinkSpec, fields: Fields) -> bool:
    """Notes each option that names a column which the rows lack, and returns whether there is none. A sink tells upper
    and lower case apart.
    """
    is_well = True
    declared, _ = declared_options(sink, is_sink=True)
    for given, (_, at) in sink.option_places.items():
        option = declared.find(given)
        if option is None or option.kind not in ("column", "columns"):
            continue
        text = sink.options[given]
        for name in text.split(",") if option.kind == "columns" else [text]:
            if name.strip() and not names_object(name) and not _is_there(name.strip(), fields):
                near = nearest_hint(name.strip(), fields) or f"; there are: {shown_names(fields)}"
                at.complain(f"option '{option.name}': the rows have no column '{name.strip()}'{near}")
                is_well = False
    return is_well


def _is_there(name: str, fields: Fields) -> bool:
    if name in fields:
        return True
    outer, dot, inner = name.partition(".")
    found = fields.get(outer)
    return bool(dot) and found is not None and (isinstance(found, str) or _is_there(inner, found))


def _check_aggregates(reading: Reading) -> None:
    """Notes groups of streams that have no watermark: in mode append Spark writes a group once it is complete."""
    # By view: whether a stream leads to it for certain, and whether a watermark may. A function may do anything.
    streams = {source.view.lower(): not source.is_batch for source in reading.sources}
    marked = {source.view.lower(): source.watermark is not None for source in reading.sources}
    unbounded: dict[str, str] = {}
    for view in reading.views:
        tables = tables_of(view.sql or "")
        is_marked = view.python is not None or any(marked.get(table, False) for table in tables)
        name = view.name.lower()
        if not is_marked and any(streams.get(table) for groups in _grouped(view.sql or "") for table in groups):
            unbounded[name] = view.name
        else:
            above = next((unbounded[table] for table in sorted(tables) if table in unbounded), None)
            if above is not None and view.python is None:
                unbounded[name] = above
        streams[name] = view.python is None and any(streams.get(table, False) for table in tables)
        marked[name] = is_marked or view.watermark is not None
    for sink in reading.sinks:
        counted = unbounded.get(sink.view.lower())
        if counted is not None and sink.mode == "append":
            sink.mode_at.complain(
                f"'{counted or 'transform'}' makes groups of a stream without a watermark, and mode 'append' writes a "
                "group once it is complete: give the source, or a view before it, a 'watermark', and group by its "
                "column or a window of it"
            )


def _grouped(sql: str) -> Iterator[set[str]]:
    """Yields the tables of each SELECT, in brackets or not, that makes groups of their rows."""
    for query in _queries(without_texts(sql)):
        yield from _groups_of(query)


def _queries(text: str) -> Iterator[str]:
    """Yields each query in brackets, and then what is left without them."""
    while (start := _SUBQUERY.search(text)) is not None:
        end, depth = start.end(), 1
        while depth and end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        yield from _queries(text[start.end() : end - 1])
        text = f"{text[: start.start()]} {text[end:]}"
    yield text


def _groups_of(text: str) -> Iterator[set[str]]:
    for select in re.split(r"\b(?:union(?:\s+all)?|except|intersect)\b", text, flags=re.IGNORECASE):
        if _AGGREGATE.search(select) and not re.search(r"\bover\b", select, re.IGNORECASE):
            yield tables_of(select)
