"""The pipeline file: its form, and how it is read. Nothing here starts Spark or imports a connector.

::

    name: flights                       # optional; shown while it runs
    source:                             # or sources: {name: {...}, ...}; each becomes a view of that name
      format: penstock.filesystem       # any format of Spark or Penstock
      schema: id long, at timestamp     # DDL; optional where the source knows its schema
      options: {path: in/, format: csv}
      watermark: {column: at, delay: 10 minutes}
    transform:                          # optional
      sql: SELECT ... FROM source       # or python: "module:function" or "path/file.py:function"
    sink:
      format: penstock.filesystem
      mode: append                      # append (default), update, complete
      options: {path: out/}
    trigger: availableNow               # or {processingTime: 10 seconds}; without it, batch follows batch
    checkpoint: checkpoint/
    spark: {spark.sql.shuffle.partitions: 4}

Relative paths are relative to the file's directory. ``${NAME}`` and ``${NAME:-default}`` are filled in from the
environment in every value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.cli._ddl import check_ddl
from penstock.cli._located import Document, Located
from penstock.options import _nearest, parse_duration_ms

__all__ = ["Endpoint", "Pipeline", "PythonEntry", "SourceSpec", "Trigger", "Watermark", "read_pipeline"]

_TOP = ("name", "source", "sources", "transform", "sink", "trigger", "checkpoint", "spark")
_MODES = ("append", "update", "complete")
#: Options that hold a path, for Spark's formats and ours.
_PATH_OPTIONS = ("path", "sourcearchivedir")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_VIEW_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Watermark:
    """How long rows of ``column`` (event time) may come late. ``delay`` is an interval as Spark reads it."""

    column: str
    delay: str


@dataclass(frozen=True)
class Endpoint:
    """A format with its options. The places are for mistakes found later; those of an option are its key's and its value's."""

    format: str
    options: dict[str, str] = field(repr=False)
    at: Located = field(repr=False, compare=False)
    format_at: Located = field(repr=False, compare=False)
    option_places: dict[str, tuple[Located, Located]] = field(repr=False, compare=False)


@dataclass(frozen=True)
class SourceSpec(Endpoint):
    """A stream to read and the view it becomes."""

    view: str
    schema: str | None
    watermark: Watermark | None


@dataclass(frozen=True)
class PythonEntry:
    """A function ``(spark, sources: dict[str, DataFrame]) -> DataFrame`` in a module or in a file."""

    module: str
    file: Path | None
    function: str
    at: Located = field(repr=False, compare=False)


@dataclass(frozen=True)
class Trigger:
    """When batches run: all there is now and then the end, at an interval, or (neither) as soon as possible."""

    available_now: bool = False
    processing_time: str | None = None


@dataclass(frozen=True)
class Pipeline:
    """A pipeline file, read."""

    path: Path
    name: str
    sources: tuple[SourceSpec, ...]
    sql: str | None
    python: PythonEntry | None
    sink: Endpoint
    mode: str
    trigger: Trigger
    checkpoint: str
    spark: dict[str, str] = field(repr=False)


def read_pipeline(path: Path, environment: Mapping[str, str] | None = None) -> tuple[Pipeline | None, Document]:
    """The pipeline in ``path``, or ``None`` if it is too broken to make one, and the document with its mistakes.

    Raises OSError if the file can't be read and UnicodeDecodeError if it is not UTF-8.
    """
    document = Document(path.read_text(encoding="utf-8"), environment)
    pipeline = None
    if document.root is not None:
        pipeline = _Reader(path).read(document.root)
    return pipeline, document


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._directory = path.resolve().parent

    def read(self, root: Located) -> Pipeline | None:
        top = root.section("a mapping with the keys source, sink and checkpoint", _TOP, ("sink", "checkpoint"))
        if top is None:
            return None
        sources = self._sources(root, top)
        sql, python = self._transform(top["transform"], sources) if "transform" in top else (None, None)
        if "transform" not in top and len(sources) > 1:
            top["sources"].complain("several sources need a 'transform' that makes one of them")
        sink, mode = self._sink(top["sink"]) if "sink" in top else (None, "append")
        trigger = _trigger(top["trigger"]) if "trigger" in top else Trigger()
        checkpoint = self._checkpoint(top["checkpoint"]) if "checkpoint" in top else None
        spark = _texts(top["spark"]) if "spark" in top else {}
        name = top["name"].text() if "name" in top else self._default_name()
        if not sources or sink is None or checkpoint is None:
            return None
        return Pipeline(
            self._path, name or "", tuple(sources), sql, python, sink, mode, trigger, checkpoint, _values(spark)
        )

    def _default_name(self) -> str:
        return self._directory.name if self._path.stem == "pipeline" else self._path.stem

    def _sources(self, root: Located, top: dict[str, Located]) -> list[SourceSpec]:
        if "source" in top and "sources" in top:
            top["sources"].complain("give either 'source' or 'sources', not both")
        if "source" not in top and "sources" not in top:
            root.complain("the pipeline needs the key 'source' (or 'sources', for several)")
        found: list[SourceSpec | None] = []
        if "source" in top:
            found.append(self._source("source", top["source"]))
        if "sources" in top:
            entries = top["sources"].mapping("a mapping of name to source") or {}
            if not entries and top["sources"].is_mapping:
                top["sources"].complain("'sources' is empty")
            for view, (key, value) in entries.items():
                if not _VIEW_NAME.fullmatch(view):
                    key.complain(f"'{view}' can't name a view: letters, digits and underscores only")
                found.append(self._source(view, value))
        return [source for source in found if source is not None]

    def _source(self, view: str, at: Located) -> SourceSpec | None:
        keys = at.section("a mapping with a 'format'", ("format", "schema", "options", "watermark"), ("format",))
        if keys is None:
            return None
        schema, columns = _schema(keys["schema"]) if "schema" in keys else (None, [])
        watermark = _watermark(keys["watermark"], columns) if "watermark" in keys else None
        endpoint = self._endpoint(at, keys)
        if endpoint is None:
            return None
        return SourceSpec(**vars(endpoint), view=view, schema=schema, watermark=watermark)

    def _sink(self, at: Located) -> tuple[Endpoint | None, str]:
        keys = at.section("a mapping with a 'format'", ("format", "mode", "options"), ("format",))
        if keys is None:
            return None, "append"
        mode = keys["mode"].text() if "mode" in keys else "append"
        if mode is not None and mode.lower() not in _MODES:
            keys["mode"].complain(f"'{mode}' is not a mode ({', '.join(_MODES)}){_nearest(mode, _MODES)}")
        return self._endpoint(at, keys), (mode or "append").lower()

    def _endpoint(self, at: Located, keys: dict[str, Located]) -> Endpoint | None:
        places = _texts(keys["options"]) if "options" in keys else {}
        options = _values(places)
        for name in options:
            if name.lower() in _PATH_OPTIONS:
                options[name] = self._resolve(options[name])
        name_of_format = keys["format"].text() if "format" in keys else None
        if name_of_format is None:
            return None
        return Endpoint(
            name_of_format, options, at, keys["format"], {name: place for name, (place, _) in places.items()}
        )

    def _transform(self, at: Located, sources: list[SourceSpec]) -> tuple[str | None, PythonEntry | None]:
        keys = at.section("{sql: ...} or {python: ...}", ("sql", "python"))
        if keys is None:
            return None, None
        if len(keys) != 1:
            at.complain("'transform' takes one of 'sql' and 'python'")
        sql = keys["sql"].text() if "sql" in keys else None
        if sql is not None and not sql.strip():
            keys["sql"].complain("'sql' is empty")
        return sql, self._python(keys["python"]) if "python" in keys else None

    def _python(self, at: Located) -> PythonEntry | None:
        text = at.text()
        if text is None:
            return None
        place, colon, function = text.rpartition(":")
        if not colon or not place or not function.isidentifier():
            at.complain(f"'{text}' is not an entry point: write module:function or path/file.py:function")
            return None
        if not place.endswith(".py"):
            return PythonEntry(place, None, function, at)
        file = Path(self._resolve(place))
        return PythonEntry(file.stem, file, function, at)

    def _checkpoint(self, at: Located) -> str | None:
        text = at.text()
        if text is not None and not text.strip():
            at.complain("'checkpoint' is empty: name a directory that stays from run to run")
        return self._resolve(text) if text else None

    def _resolve(self, text: str) -> str:
        """A path against the file's directory. One with a scheme or from the root stays; so does a trailing slash."""
        return text if _SCHEME.match(text) or not text else f"{self._directory}/{text}" if text[0] != "/" else text


def _schema(at: Located) -> tuple[str | None, list[str]]:
    text = at.text()
    if text is None:
        return None, []
    try:
        return text, check_ddl(text)
    except ValueError as error:
        at.complain(f"bad schema: {error}")
        return text, []


def _watermark(at: Located, columns: list[str]) -> Watermark | None:
    keys = at.section("{column: ..., delay: ...}", ("column", "delay"), ("column", "delay"))
    column = keys["column"].text() if keys and "column" in keys else None
    if keys and column and columns and column.lower() not in [name.lower() for name in columns]:
        keys["column"].complain(f"the schema has no column '{column}'{_nearest(column, columns)}")
    delay = _interval(keys["delay"]) if keys and "delay" in keys else None
    return Watermark(column, delay) if column and delay else None


def _interval(at: Located) -> str | None:
    """A duration, in the words that Spark takes."""
    text = at.text()
    if text is None:
        return None
    try:
        return f"{parse_duration_ms(text)} milliseconds"
    except ValueError as error:
        at.complain(f"'{text}' is not {error}")
        return None


def _trigger(at: Located) -> Trigger:
    if not at.is_mapping:
        text = at.text()
        if text is not None and text.lower() != "availablenow":
            hint = _nearest(text, ["availableNow"])
            at.complain(f"'{text}' is not a trigger: write availableNow or {{processingTime: 10 seconds}}{hint}")
        return Trigger(available_now=True)
    keys = at.section("availableNow or {processingTime: ...}", ("processingTime",), ("processingTime",)) or {}
    return Trigger(processing_time=_interval(keys["processingTime"]) if "processingTime" in keys else None)


def _texts(at: Located) -> dict[str, tuple[tuple[Located, Located], str]]:
    """Name → (the places of the name and the value, the value's text)."""
    entries = at.mapping("a mapping of option to value") or {}
    texts: dict[str, tuple[tuple[Located, Located], str]] = {}
    by_lower: dict[str, str] = {}
    for name, (key, value) in entries.items():
        if by_lower.setdefault(name.lower(), name) != name:
            key.complain(f"option '{name}' is given twice (also as '{by_lower[name.lower()]}')")
        text = value.text()
        if text is not None:
            texts[name] = ((key, value), text)
    return texts


def _values(texts: Mapping[str, tuple[object, str]]) -> dict[str, str]:
    return {name: text for name, (_, text) in texts.items()}
