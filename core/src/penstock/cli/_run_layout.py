"""What a run finds below its checkpoint: the same way to commit as before, or nothing yet.

``<checkpoint>`` is the checkpoint of the only query; with ``commit: separate`` each sink has one of its own,
``<checkpoint>/<sink>``.
Another way would read the sources from the beginning, or write the last batch again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.checkpoint import SparkLog, chain_of, home_of, members_of, named_sinks, read_form, sink_path
from penstock.cli._check_targets import target_of
from penstock.cli._pipeline import Commit, Pipeline, SinkSpec
from penstock.errors import BadConfigurationError
from penstock.storage import Storage, open_storage

__all__ = ["check_layout"]

_WORDS: dict[Commit | None, str] = {None: "the key 'sink'", **{one: f"'commit: {one.value}'" for one in Commit}}


def check_layout(pipeline: Pipeline, checkpoint: str) -> None:
    """Raises BadConfigurationError if the checkpoint was written with another way to commit than the file has, or by a
    sink of another name that wrote where one of the file would write the same rows again.
    """
    ways = _found(pipeline, checkpoint)
    if ways and pipeline.commit not in ways:
        raise BadConfigurationError(
            f"{pipeline.checkpoint} was written with {_WORDS[next(iter(ways))]}, and the file has "
            f"{_WORDS[pipeline.commit]}: write that again, or name another checkpoint, which reads from the beginning"
        )
    storage, path = open_storage(checkpoint, pipeline.storage_options)
    names = {sink.name for sink in pipeline.sinks}
    for before, home in _gone(pipeline, storage, path, names):
        for sink in pipeline.sinks:
            if not _has_written(pipeline, storage, path, sink.name) and _is_target(sink, pipeline, storage, home):
                again = "everything" if pipeline.commit is Commit.SEPARATE else "the last batch"
                raise BadConfigurationError(
                    f"sink '{sink.name}' writes where sink '{before}' of {pipeline.checkpoint} has written, and would "
                    f"write {again} again: call it '{before}', as before, or give it another target"
                )


def _gone(pipeline: Pipeline, storage: Storage, path: str, names: set[str]) -> Iterator[tuple[str, str]]:
    """Yields sinks that the file lacks now, and where they are stored, if a new one might repeat what they wrote."""
    if pipeline.commit is Commit.EACH:
        committed = SparkLog(storage, path).last("commits")
        for name in named_sinks(storage, path):
            home = home_of(path, name)
            # The batch that this one has and Spark has not is run again, and a new sink would not skip it.
            if name not in names and chain_of(storage, home).head().link.batch > committed:
                yield name, home
    elif pipeline.commit is Commit.SEPARATE and not all(_has_written(pipeline, storage, path, one) for one in names):
        for file in storage.list_tree(path):
            name, _, rest = file.removeprefix(f"{path}/").partition("/")
            if rest == "penstock/sink.json" and name not in names:
                yield name, f"{path}/{name}"


def _has_written(pipeline: Pipeline, storage: Storage, path: str, name: str) -> bool:
    home = f"{path}/{name}" if pipeline.commit is Commit.SEPARATE else home_of(path, name)
    return storage.exists(sink_path(home))


def _is_target(sink: SinkSpec, pipeline: Pipeline, storage: Storage, home: str) -> bool:
    """Returns whether ``sink`` writes where the sink stored at ``home`` does."""
    stored = read_form(storage, sink_path(home))
    before = replace(sink, format=f"penstock.{stored.name}", options=dict(stored.texts))
    one, other = target_of(before, pipeline.spark), target_of(sink, pipeline.spark)
    return one is not None and other is not None and one.is_same(other)


def _found(pipeline: Pipeline, checkpoint: str) -> dict[Commit | None, None]:
    """Returns the ways that fit what is there: none for an empty checkpoint, several if no sink has written yet."""
    storage, path = open_storage(checkpoint, pipeline.storage_options)
    if not storage.exists(f"{path}/metadata"):
        below = (f"{path}/{sink.name}/metadata" for sink in pipeline.sinks if sink.name)
        return dict.fromkeys([Commit.SEPARATE]) if any(map(storage.exists, below)) else {}
    names = named_sinks(storage, path)
    if not names:
        has_own = storage.exists(f"{path}/penstock/sink.json")
        return dict.fromkeys([None] if has_own else [None, Commit.TOGETHER, Commit.EACH])
    is_group = any(members_of(storage, home_of(path, name)) is not None for name in names)
    return dict.fromkeys([Commit.TOGETHER if is_group else Commit.EACH])
