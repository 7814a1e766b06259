"""The pipeline file: its form, and how it is read. Nothing here starts Spark or imports a connector.

::

    source:                             # or sources: {name: {...}, ...}; each becomes a view of that name
      format: penstock.filesystem
      schema: id long, at timestamp
      options: {path: in/, format: csv}
      watermark: {column: at, delay: 10 minutes}
    transform: {sql: SELECT ... FROM source}    # or views: {name: SELECT ..., ...}
    sink:                               # or sinks: {name: {...}, ...}
      format: penstock.filesystem
      options: {path: out/}
    trigger: availableNow
    checkpoint: checkpoint/

:mod:`penstock.cli._keys` has every key. Relative paths are relative to the file's directory. ``${NAME}`` and
``${NAME:-default}`` are filled in from the environment in every value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from penstock.cli._keys import FILE, SINK, SOURCE, TRANSFORM, VIEW
from penstock.cli._located import Document, Located
from penstock.cli._parts import (
    Trigger,
    Watermark,
    read_list,
    read_options,
    read_schema,
    read_settings,
    read_trigger,
    read_watermark,
    values_of,
)
from penstock.options import nearest_hint
from penstock.storage import storage_options_of_one

__all__ = [
    "Commit",
    "Endpoint",
    "Pipeline",
    "PythonEntry",
    "Reading",
    "SinkSpec",
    "SourceSpec",
    "ViewSpec",
    "read_pipeline",
]

_READS = ("stream", "batch")
_MODES = ("append", "update", "complete")
#: Options of Spark's formats that hold a path. Penstock's connectors declare theirs.
_PATHS_OF_SPARK = ("path", "sourcearchivedir", "basepath", "checkpointlocation")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class Endpoint:
    """A format with its options. The places, of an option its key's and its value's, are for mistakes found later."""

    format: str
    options: dict[str, str] = field(repr=False)
    at: Located = field(repr=False, compare=False)
    format_at: Located = field(repr=False, compare=False)
    option_places: dict[str, tuple[Located, Located]] = field(repr=False, compare=False)

    @property
    def is_ours(self) -> bool:
        """Whether the format is one of Penstock's, as far as its name says."""
        return self.format.lower().startswith("penstock.")


class Commit(str, Enum):
    """How the sinks of ``sinks`` get a batch."""

    #: One query; a batch becomes visible in all sinks, or in none.
    TOGETHER = "together"
    #: One query; each sink is exactly once by itself.
    EACH = "each"
    #: A query for each sink, with a checkpoint of its own below the pipeline's.
    SEPARATE = "separate"


@dataclass(frozen=True)
class SourceSpec(Endpoint):
    """A stream or a table to read, and the view it becomes. ``name_at`` is where the name stands.

    ``flatten`` names structs whose fields become columns, ``select`` has expressions over what that gives, and
    ``watermark`` a column of what that gives.
    """

    view: str
    is_batch: bool
    schema: str | None
    flatten: tuple[tuple[str, Located], ...]
    select: tuple[tuple[str, Located], ...]
    watermark: Watermark | None
    name_at: Located = field(repr=False, compare=False)


@dataclass(frozen=True)
class SinkSpec(Endpoint):
    """A sink, the view it takes from, and where these stand. ``name`` is empty for that of ``sink``."""

    name: str
    view: str
    mode: str
    view_at: Located = field(repr=False, compare=False)
    mode_at: Located = field(repr=False, compare=False)


@dataclass(frozen=True)
class PythonEntry:
    """A function ``(spark, sources: dict[str, DataFrame]) -> DataFrame`` in a module or in a file."""

    module: str
    file: Path | None
    function: str
    at: Located = field(repr=False, compare=False)


@dataclass(frozen=True)
class ViewSpec:
    """A step: SQL or Python over the views above it. ``name`` is empty for ``transform``, which only sinks can use."""

    name: str
    sql: str | None
    python: PythonEntry | None
    watermark: Watermark | None
    name_at: Located = field(repr=False, compare=False)
    at: Located = field(repr=False, compare=False)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline file, read. ``commit`` is ``None`` for the file with the key ``sink``."""

    path: Path
    name: str
    sources: tuple[SourceSpec, ...]
    views: tuple[ViewSpec, ...]
    sinks: tuple[SinkSpec, ...]
    commit: Commit | None
    trigger: Trigger
    checkpoint: str
    spark: dict[str, str] = field(repr=False)
    checkpoint_at: Located = field(repr=False, compare=False)

    @property
    def storage_options(self) -> dict[str, str]:
        """Returns what the checkpoint's storage may need, such as ``s3.key``: the options of one of the sinks."""
        return storage_options_of_one(self.checkpoint, (sink.options for sink in self.sinks))


@dataclass
class Reading:
    """A pipeline file with what could be made of it: ``pipeline`` is ``None`` if a part is missing or broken.

    Paths are whole, except for those in options of Penstock's connectors: see :meth:`resolve`.
    """

    directory: Path
    document: Document
    pipeline: Pipeline | None = None
    sources: list[SourceSpec] = field(default_factory=list)
    views: list[ViewSpec] = field(default_factory=list)
    sinks: list[SinkSpec] = field(default_factory=list)
    commit: Commit | None = None
    spark: dict[str, str] = field(default_factory=dict, repr=False)

    def resolve(self, path: str) -> str:
        """Returns a path against the file's directory. One with a scheme or from the root stays; so does a trailing
        slash.
        """
        return path if _SCHEME.match(path) or not path else f"{self.directory}/{path}" if path[0] != "/" else path


def read_pipeline(path: Path, environment: Mapping[str, str] | None = None) -> Reading:
    """Reads ``path``; mistakes are in the reading's document.

    Raises OSError if the file can't be read and UnicodeDecodeError if it is not UTF-8.
    """
    document = Document(path.read_text(encoding="utf-8"), environment)
    # Once it is read, it is no loop of links, of which resolve() says nothing that a person understands.
    reading = Reading(path.resolve().parent, document)
    if reading.document.root is not None:
        _Reader(path, reading).read(reading.document.root)
    return reading


class _Reader:
    """Fills a :class:`Reading` from the document's root."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path = path
        self._reading = reading

    def read(self, root: Located) -> None:
        """Reads every part that is there, so that one mistake does not hide the next."""
        top = root.section("a mapping with the keys source, sink and checkpoint", FILE, ("checkpoint",))
        if top is None:
            return
        made = self._reading
        made.sources = self._sources(root, top)
        made.views = self._views(top)
        made.sinks = self._sinks(root, top)
        made.commit = self._commit(top)
        trigger = read_trigger(top["trigger"]) if "trigger" in top else Trigger()
        checkpoint = self._checkpoint(top["checkpoint"]) if "checkpoint" in top else None
        made.spark = read_settings(top["spark"]) if "spark" in top else {}
        name = top["name"].text() if "name" in top else self._default_name()
        if made.sources and made.sinks and checkpoint is not None:
            parts = tuple(made.sources), tuple(made.views), tuple(made.sinks)
            made.pipeline = Pipeline(
                self._path, name or "", *parts, made.commit, trigger, checkpoint, made.spark, top["checkpoint"]
            )

    def _default_name(self) -> str:
        return self._reading.directory.name if self._path.stem == "pipeline" else self._path.stem

    def _named(self, root: Located, top: dict[str, Located], one: str, several: str) -> list[tuple[Located, Located]]:
        """Returns (name, value) of what the key ``one`` or the key ``several`` has; of ``one`` the key names it."""
        if one in top and several in top:
            top[several].complain(f"give either '{one}' or '{several}', not both")
        if one not in top and several not in top:
            root.complain(f"the pipeline needs the key '{one}' (or '{several}', for several)")
        found = [(top[one], top[one])] if one in top else []
        if several in top:
            entries = top[several].mapping(f"a mapping of name to {one}") or {}
            if not entries and top[several].is_mapping:
                top[several].complain(f"'{several}' is empty")
            found += [(key, value) for key, value in entries.values()]
        return found

    def _sources(self, root: Located, top: dict[str, Located]) -> list[SourceSpec]:
        found = [self._source(*one) for one in self._named(root, top, "source", "sources")]
        return [source for source in found if source is not None]

    def _source(self, name: Located, at: Located) -> SourceSpec | None:
        keys = at.section("a mapping with a 'format'", SOURCE, ("format",))
        if keys is None:
            return None
        read = self._choice(keys, "read", _READS, "a way to read")
        schema = read_schema(keys["schema"]) if "schema" in keys else None
        flatten = read_list(keys["flatten"]) if "flatten" in keys else []
        select = read_list(keys["select"]) if "select" in keys else []
        watermark = read_watermark(keys["watermark"]) if "watermark" in keys else None
        if watermark is not None and read == "batch":
            keys["watermark"].complain("only a stream has a watermark, and 'read' is batch: leave it out")
        endpoint = self._endpoint(at, keys)
        if endpoint is None:
            return None
        return SourceSpec(
            **vars(endpoint),
            view=at.name,
            is_batch=read == "batch",
            schema=schema,
            flatten=tuple(flatten),
            select=tuple(select),
            watermark=watermark,
            name_at=name,
        )

    def _choice(self, keys: dict[str, Located], key: str, choices: tuple[str, ...], what: str) -> str:
        """Returns one of ``choices``: the first unless the file has another."""
        text = keys[key].text() if key in keys else None
        if text is not None and text.lower() not in choices:
            hint = nearest_hint(text, choices)
            keys[key].complain(f"'{text}' is not {what} ({', '.join(choices)}){hint}")
            return choices[0]
        return (text or choices[0]).lower()

    def _views(self, top: dict[str, Located]) -> list[ViewSpec]:
        if "transform" in top and "views" in top:
            top["views"].complain("give either 'transform' or 'views', not both")
        found = []
        if "transform" in top:
            keys = top["transform"].section("{sql: ...} or {python: ...}", TRANSFORM)
            found.append(self._step("", top["transform"], top["transform"], keys))
        if "views" in top:
            for name, (key, value) in (top["views"].mapping("a mapping of name to SQL") or {}).items():
                found.append(self._view(name, key, value))
        return [view for view in found if view is not None]

    def _view(self, name: str, key: Located, at: Located) -> ViewSpec | None:
        if at.is_mapping:
            return self._step(name, key, at, at.section("SQL, or {sql: ...}", VIEW))
        return self._step(name, key, at, {"sql": at})

    def _step(self, name: str, key: Located, at: Located, keys: dict[str, Located] | None) -> ViewSpec | None:
        if keys is None:
            return None
        if len(keys.keys() & {"sql", "python"}) != 1:
            at.complain(f"'{at.name}' takes one of 'sql' and 'python'")
        sql = keys["sql"].text() if "sql" in keys else None
        if sql is not None and not sql.strip():
            keys["sql"].complain(f"'{keys['sql'].name}' is empty")
        python = self._python(keys["python"]) if "python" in keys else None
        watermark = read_watermark(keys["watermark"]) if "watermark" in keys else None
        return ViewSpec(name, sql, python, watermark, key, at)

    def _sinks(self, root: Located, top: dict[str, Located]) -> list[SinkSpec]:
        several = "sinks" in top
        found = [self._sink(at.name if several else "", at) for _, at in self._named(root, top, "sink", "sinks")]
        return [sink for sink in found if sink is not None]

    def _sink(self, name: str, at: Located) -> SinkSpec | None:
        keys = at.section("a mapping with a 'format'", SINK, ("format",))
        if keys is None:
            return None
        mode = self._choice(keys, "mode", _MODES, "a mode")
        view = self._from(keys["from"]) if "from" in keys else self._last_view(at)
        endpoint = self._endpoint(at, keys)
        if endpoint is None or view is None:
            return None
        view_at, mode_at = keys.get("from", at), keys.get("mode", at)
        return SinkSpec(**vars(endpoint), name=name, view=view, mode=mode, view_at=view_at, mode_at=mode_at)

    def _from(self, at: Located) -> str | None:
        if at.is_list:
            at.complain("a sink takes 'from' one view: join several by a view with UNION ALL, and name that one")
            return None
        return at.text()

    def _last_view(self, at: Located) -> str | None:
        """Returns what a sink takes from unless it says so: what the last step makes, or the only source."""
        made = self._reading
        if made.views:
            return made.views[-1].name
        if len(made.sources) > 1:
            at.complain("there are several sources: write 'from', with the name of one, or a view that joins them")
        return made.sources[0].view if len(made.sources) == 1 else None

    def _commit(self, top: dict[str, Located]) -> Commit | None:
        if "sinks" in top:
            choices = tuple(one.value for one in Commit)
            return Commit(self._choice(top, "commit", choices, "a way to commit"))
        if "commit" in top:
            top["commit"].complain("'commit' is for several sinks: write 'sinks' in place of 'sink', or leave it out")
        return None

    def _endpoint(self, at: Located, keys: dict[str, Located]) -> Endpoint | None:
        places = read_options(keys["options"]) if "options" in keys else {}
        options = values_of(places)
        name_of_format = keys["format"].text() if "format" in keys else None
        if name_of_format is None:
            return None
        key_places = {name: place for name, (place, _) in places.items()}
        endpoint = Endpoint(name_of_format, options, at, keys["format"], key_places)
        if not endpoint.is_ours:
            paths = (name for name in options if name.lower() in _PATHS_OF_SPARK)
            options.update({name: self._resolve(options[name]) for name in paths})
        return endpoint

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
        return self._reading.resolve(text)
