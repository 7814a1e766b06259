"""What a run finds below its checkpoint: the same way to commit as before, or nothing yet.

``<checkpoint>`` is the checkpoint of the only query; with ``commit: separate`` each sink has one of its own,
``<checkpoint>/<sink>``.
Another way would read the sources from the beginning, or write the last batch again.
"""

from __future__ import annotations

from penstock.checkpoint import home_of, members_of, named_sinks
from penstock.cli._pipeline import Commit, Pipeline
from penstock.errors import BadConfigurationError
from penstock.storage import open_storage

__all__ = ["check_layout"]

_WORDS: dict[Commit | None, str] = {None: "the key 'sink'", **{one: f"'commit: {one.value}'" for one in Commit}}


def check_layout(pipeline: Pipeline, checkpoint: str) -> None:
    """Raises BadConfigurationError if the checkpoint was written with another way to commit than the file has."""
    ways = _found(pipeline, checkpoint)
    if ways and pipeline.commit not in ways:
        raise BadConfigurationError(
            f"{pipeline.checkpoint} was written with {_WORDS[next(iter(ways))]}, and the file has "
            f"{_WORDS[pipeline.commit]}: write that again, or name another checkpoint, which reads from the beginning"
        )


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
