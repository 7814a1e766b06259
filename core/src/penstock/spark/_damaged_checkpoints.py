"""A query does not start on a checkpoint with damaged files: the error names them, where Spark's would not. What a kill
has left of a first batch is removed, where Spark would refuse to start.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from penstock.checkpoint import SparkLog, damage_of
from penstock.errors import PenstockError
from penstock.storage import open_storage

__all__ = ["looking_first", "noting_options"]

#: Attribute of a writer: the options that it was given.
_GIVEN = "_penstock_options"
_LOCATION = "checkpointlocation"


def noting_options(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a writer's ``option`` or ``options``, so that the writer notes what it was called with."""

    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        named = {args[0]: args[1]} if len(args) > 1 else given
        kept = {**getattr(writer, _GIVEN, {}), **{str(name).lower(): text for name, text in named.items()}}
        setattr(writer, _GIVEN, kept)
        return method(writer, *args, **given)

    return wrapped


def looking_first(start: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a stream's ``start`` or ``toTable``, which looks at the checkpoint first, where the writer has noted it.

    A location that can't be looked at here (the session's default, a file system of Hadoop's) is left to Spark.
    """
    signature = inspect.signature(start)

    @functools.wraps(start)
    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        bound = signature.bind(writer, *args, **given).arguments
        options = {str(name).lower(): text for name, text in bound.get("options", {}).items()}
        options = {**getattr(writer, _GIVEN, {}), **options}
        if options.get(_LOCATION):
            _look_at(str(options[_LOCATION]), options)
        return start(writer, *args, **given)

    return wrapped


def _look_at(location: str, options: dict[str, Any]) -> None:
    try:
        storage, path = open_storage(location, {name: str(text) for name, text in options.items()})
        SparkLog(storage, path).clear_unwritten()
        damage = damage_of(storage, path)
    except (PenstockError, OSError):
        return  # Spark, or the sink, says what is wrong with the location
    if damage:
        raise damage[0]
