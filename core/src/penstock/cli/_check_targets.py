"""Where the sinks of a pipeline file write, however it is spelled: two sinks with one target are refused, and what is
read back is a warning.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock._plugins import find_connector
from penstock.cli._pipeline import Endpoint, Pipeline, Reading, SinkSpec, SourceSpec
from penstock.errors import BadConfigurationError
from penstock.options import OptionSet
from penstock.storage import has_scheme

__all__ = ["declared_options", "check_targets", "local_path", "sink_values", "target_of"]

#: Options that name what a stream reads, in whichever connector.
_READ_FROM = ("subscribe", "stream", "table")
#: Spellings of one store.
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
_PATH = "path"


@dataclass(frozen=True)
class Place:
    """What is written to or read: a path, or a thing of a system that any of ``servers`` leads to."""

    kind: str
    name: str
    servers: frozenset[str] = frozenset()

    def is_same(self, other: Place) -> bool:
        meet = self.servers == other.servers or bool(self.servers & other.servers)
        return (self.kind, self.name) == (other.kind, other.name) and meet

    def holds(self, other: Place) -> bool:
        """Returns whether ``other`` is this one or, of paths, one that a reader finds below it.

        Readers skip names that begin with ``.`` or ``_``.
        """
        if self.kind != _PATH or other.kind != _PATH:
            return self.is_same(other)
        if not _is_below(other, self):
            return False
        return not any(part[:1] in (".", "_") for part in other.name[len(self.name) :].split("/"))


def check_targets(reading: Reading) -> None:
    """Notes sinks with one target, which would mix up their rows for readers; warns of directories in directories, and
    of what is read back.
    """
    targets: list[tuple[SinkSpec, Place]] = []
    for sink in reading.sinks:
        place = target_of(sink, reading.spark)
        if place is None:
            continue  # rows say where they go
        before = next((one for one, target in targets if target.is_same(place)), None)
        if before is not None:
            sink.at.complain(
                f"sink '{sink.name}' writes where sink '{before.name}' writes: give it another target, or join both "
                "views with UNION ALL into one sink"
            )
        for outer, inner in _nested(sink, place, targets) if before is None else ():
            sink.at.complain(
                f"sink '{inner.name}' writes below the directory of sink '{outer.name}': a reader of that directory "
                "gets the rows of both",
                is_warning=True,
            )
        targets.append((sink, place))
    _check_checkpoint(targets, reading)
    for source in reading.sources:
        if not source.is_batch:
            _check_source(source, list(_origins(source, reading.spark)), targets, reading)


def _check_checkpoint(targets: list[tuple[SinkSpec, Place]], reading: Reading) -> None:
    if reading.pipeline is None:
        return
    at, checkpoint = reading.pipeline.checkpoint_at, _checkpoint_of(reading.pipeline)
    for sink, target in targets:
        written = f"sink '{sink.name}'" if sink.name else "the sink"
        if _is_below(target, checkpoint):
            sink.at.complain(f"{written} writes into the checkpoint: give it a directory of its own")
        elif target.holds(checkpoint):
            at.complain(
                f"the checkpoint is below the directory of {written}, whose readers may take its files for rows: write "
                "it elsewhere, or below a name that begins with '.' or '_'",
                is_warning=True,
            )


def _checkpoint_of(pipeline: Pipeline) -> Place:
    return Place(_PATH, _normal(pipeline.checkpoint, pipeline.spark))


def _is_below(inner: Place, outer: Place) -> bool:
    """Returns whether a path is the other one or below it, whatever the names in between."""
    return inner.kind == outer.kind == _PATH and f"{inner.name}/".startswith(f"{outer.name}/")


def _nested(sink: SinkSpec, place: Place, targets: list[tuple[SinkSpec, Place]]) -> Iterator[tuple[SinkSpec, SinkSpec]]:
    """Yields the outer and the inner one of ``sink`` and each sink before it that writes in the same tree."""
    for other, target in targets:
        if target.holds(place):
            yield other, sink
        elif place.holds(target):
            yield sink, other


def _check_source(
    source: SourceSpec, origins: list[Place], targets: list[tuple[SinkSpec, Place]], reading: Reading
) -> None:
    is_read = Place.holds if source.is_ours else Place.is_same  # Spark's own do not read folders in folders
    for sink, target in targets:
        if any(is_read(origin, target) for origin in origins):
            written = f"sink '{sink.name}'" if sink.name else "the sink"
            sink.at.complain(
                f"source '{source.view}' reads what {written} writes: rows come back in a later batch, again and again "
                "unless a view or an option of the source leaves them out",
                is_warning=True,
            )
    pipeline = reading.pipeline
    given = {name.lower(): text.lower() for name, text in source.options.items()}
    if pipeline is None or "pathglobfilter" in given or given.get("recursivefilelookup") == "false":
        return
    checkpoint = _checkpoint_of(pipeline)
    if any(is_read(origin, checkpoint) for origin in origins):
        pipeline.checkpoint_at.complain(
            f"the checkpoint is where source '{source.view}' reads, so its files would be read as rows: write it "
            "elsewhere, or below a name that begins with '.' or '_'"
        )


def declared_options(end: Endpoint, *, is_sink: bool) -> tuple[OptionSet, tuple[str, ...]]:
    """Returns the options, and the names of those that say where a sink writes; nothing if it can't be loaded."""
    if not end.is_ours:
        return OptionSet(), (_PATH,)
    try:
        connector = find_connector(end.format).load()
    except BadConfigurationError:
        return OptionSet(), ()  # said already
    declared = connector.sink_options if is_sink else connector.source_options
    return declared or OptionSet(), connector.target_options


def sink_values(sink: SinkSpec) -> dict[str, str]:
    """Returns a sink's options by the name they are declared with, in lower case, with their defaults."""
    return _values(sink, declared_options(sink, is_sink=True)[0])


def _values(end: Endpoint, declared: OptionSet) -> dict[str, str]:
    values = {option.name.lower(): option.default for option in declared if option.default is not None}
    for name, text in end.options.items():
        option = declared.find(name)
        values[(name if option is None or option.is_prefix else option.name).lower()] = text
    return values


def target_of(sink: Endpoint, spark: Mapping[str, str]) -> Place | None:
    """Returns where a sink writes, with its paths resolved; ``None`` if its options do not say it."""
    declared, names = declared_options(sink, is_sink=True)
    if not names:
        return None
    values = [_values(sink, declared).get(name.lower(), "") for name in names]
    return _place(sink, names, values, spark) if values[-1].strip("/") else None


def _origins(source: SourceSpec, spark: Mapping[str, str]) -> Iterator[Place]:
    declared, names = declared_options(source, is_sink=False)
    values = _values(source, declared)
    if names == (_PATH,):
        paths = [values.get(_PATH, ""), *_listed(values.get("paths", ""))]
        yield from (Place(_PATH, _normal(path, spark)) for path in paths if path)
        return
    system = [values.get(name.lower(), "") for name in names[:-1]]
    for option in _READ_FROM:
        for thing in values.get(option, "").split(","):
            if thing.strip():
                yield _place(source, names, [*system, thing.strip()], spark)


def _listed(text: str) -> list[str]:
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []  # said already
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _place(end: Endpoint, names: tuple[str, ...], values: list[str], spark: Mapping[str, str]) -> Place:
    """Returns the place that the target options say: the system first, the thing last, what it is in between them."""
    if names == (_PATH,):
        return Place(_PATH, _normal(values[0], spark))
    servers, *between = values
    addresses = (one.strip().lower().rpartition("://")[2] for one in servers.split(","))
    name = "/".join(one for one in between if one)
    return Place(end.format.lower(), name, frozenset(one for one in addresses if one))


def local_path(path: str, spark: Mapping[str, str]) -> str | None:
    """Returns the path on this machine, ``None`` if it is in a store or can't be one."""
    scheme, _, rest = path.partition(":") if has_scheme(path) else ("", "", path)
    default = next((text for name, text in spark.items() if name.lower().endswith("fs.defaultfs")), "file:")
    is_local = scheme.lower() == "file" or (not scheme and default.lower().startswith("file:"))
    if not is_local or "\0" in rest:  # said of the address itself
        return None
    return f"/{rest.lstrip('/')}" if rest.startswith("/") else rest


def _normal(path: str, spark: Mapping[str, str]) -> str:
    """Returns one spelling for all of a path: symbolic links, ``..``, ``file:`` and slashes at the end are the same."""
    if (local := local_path(path, spark)) is not None:
        return os.path.realpath(local).rstrip("/")
    scheme, colon, rest = path.partition(":") if has_scheme(path) else ("", "", path)
    scheme = _SAME_STORE.get(scheme.lower(), scheme.lower())
    return f"{scheme}{colon}{rest}".rstrip("/")
