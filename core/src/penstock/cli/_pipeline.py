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

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.cli._located import Document, Located
from penstock.cli._parts import (
    Trigger,
    Watermark,
    read_options,
    read_schema,
    read_trigger,
    read_watermark,
    values_of,
)
from penstock.options import nearest_hint

__all__ = ["Endpoint", "Pipeline", "PythonEntry", "Reading", "SourceSpec", "read_pipeline"]

_TOP = ("name", "source", "sources", "transform", "sink", "trigger", "checkpoint", "spark")
_MODES = ("append", "update", "complete")
#: Options that hold a path, for Spark's formats and Penstock's.
_PATH_OPTIONS = ("path", "sourcearchivedir")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_VIEW_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Endpoint:
    """A format with its options. The places, of an option its key's and its value's, are for mistakes found later."""

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


@dataclass
class Reading:
    """A pipeline file with what could be made of it: ``pipeline`` is ``None`` if a part is missing or broken."""

    document: Document
    pipeline: Pipeline | None = None
    sources: list[SourceSpec] = field(default_factory=list)
    sink: Endpoint | None = None
    python: PythonEntry | None = None
    spark: dict[str, str] = field(default_factory=dict, repr=False)


def read_pipeline(path: Path, environment: Mapping[str, str] | None = None) -> Reading:
    """Reads ``path``; mistakes are in the reading's document.

    Raises OSError if the file can't be read and UnicodeDecodeError if it is not UTF-8.
    """
    reading = Reading(Document(path.read_text(encoding="utf-8"), environment))
    if reading.document.root is not None:
        _Reader(path, reading).read(reading.document.root)
    return reading


class _Reader:
    """Fills a :class:`Reading` from the document's root."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path = path
        self._directory = path.resolve().parent
        self._reading = reading

    def read(self, root: Located) -> None:
        """Reads every part that is there, so that one mistake does not hide the next."""
        top = root.section("a mapping with the keys source, sink and checkpoint", _TOP, ("sink", "checkpoint"))
        if top is None:
            return
        made = self._reading
        made.sources = self._sources(root, top)
        sql, made.python = self._transform(top["transform"]) if "transform" in top else (None, None)
        if "transform" not in top and len(made.sources) > 1:
            top["sources"].complain("several sources need a 'transform' that makes one of them")
        made.sink, mode = self._sink(top["sink"]) if "sink" in top else (None, "append")
        trigger = read_trigger(top["trigger"]) if "trigger" in top else Trigger()
        checkpoint = self._checkpoint(top["checkpoint"]) if "checkpoint" in top else None
        made.spark = values_of(read_options(top["spark"])) if "spark" in top else {}
        name = top["name"].text() if "name" in top else self._default_name()
        if made.sources and made.sink is not None and checkpoint is not None:
            made.pipeline = Pipeline(
                self._path,
                name or "",
                tuple(made.sources),
                sql,
                made.python,
                made.sink,
                mode,
                trigger,
                checkpoint,
                made.spark,
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
        schema, columns = read_schema(keys["schema"]) if "schema" in keys else (None, [])
        watermark = read_watermark(keys["watermark"], columns) if "watermark" in keys else None
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
            keys["mode"].complain(f"'{mode}' is not a mode ({', '.join(_MODES)}){nearest_hint(mode, _MODES)}")
        return self._endpoint(at, keys), (mode or "append").lower()

    def _endpoint(self, at: Located, keys: dict[str, Located]) -> Endpoint | None:
        places = read_options(keys["options"]) if "options" in keys else {}
        options = values_of(places)
        for name, text in options.items():
            if name.lower() in _PATH_OPTIONS:
                options[name] = self._resolve(text)
            elif name.lower() == "paths" and places[name][0][1].is_list:
                options[name] = json.dumps([self._resolve(path) for path in json.loads(text)])
        name_of_format = keys["format"].text() if "format" in keys else None
        if name_of_format is None:
            return None
        return Endpoint(
            name_of_format, options, at, keys["format"], {name: place for name, (place, _) in places.items()}
        )

    def _transform(self, at: Located) -> tuple[str | None, PythonEntry | None]:
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
        """Returns a path against the file's directory. One with a scheme or from the root stays; so does a trailing
        slash.
        """
        return text if _SCHEME.match(text) or not text else f"{self._directory}/{text}" if text[0] != "/" else text
