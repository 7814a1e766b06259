"""A query does not start on a checkpoint with damaged files: the error names them, where Spark's would not."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from penstock.checkpoint import damage_of
from penstock.errors import PenstockError
from penstock.storage import open_storage

__all__ = ["look_before_start"]

_MARK, _GIVEN = "_penstock_looks", "_penstock_options"
_LOCATION = "checkpointlocation"


def look_before_start(writer_class: Any) -> None:
    """Lets writers of streams look at their checkpoint before they start. Once in a process.

    A location that can't be looked at here (the session's default, a file system of Hadoop's) is left to Spark.
    """
    if hasattr(writer_class.start, _MARK):
        return

    def noting(method: Any) -> Any:
        @functools.wraps(method)
        def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
            named = {args[0]: args[1]} if len(args) > 1 else given
            kept = {**getattr(writer, _GIVEN, {}), **{str(name).lower(): text for name, text in named.items()}}
            setattr(writer, _GIVEN, kept)
            return method(writer, *args, **given)

        return wrapped

    def looking(method: Any) -> Any:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
            bound = signature.bind(writer, *args, **given).arguments
            options = {str(name).lower(): text for name, text in bound.get("options", {}).items()}
            options = {**getattr(writer, _GIVEN, {}), **options}
            if options.get(_LOCATION):
                _refuse_damaged(str(options[_LOCATION]), options)
            return method(writer, *args, **given)

        setattr(wrapped, _MARK, True)
        return wrapped

    for name in ("option", "options"):
        setattr(writer_class, name, noting(getattr(writer_class, name)))
    for name in ("start", "toTable"):
        setattr(writer_class, name, looking(getattr(writer_class, name)))


def _refuse_damaged(location: str, options: dict[str, Any]) -> None:
    try:
        storage, path = open_storage(location, {name: str(text) for name, text in options.items()})
        damage = damage_of(storage, path)
    except (PenstockError, OSError):
        return  # Spark, or the sink, says what is wrong with the location
    if damage:
        raise damage[0]
