"""A query does not start on a checkpoint that can't be used: the error says why, where Spark's is a trace of Java. What
a kill has left of a first batch is removed, where Spark would refuse to start.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.checkpoint import SparkLog, damage_of
from penstock.error_codes import NOT_WRITABLE
from penstock.errors import BadConfigurationError, PenstockError
from penstock.options import without_credentials
from penstock.spark._locations import LOCAL, Home
from penstock.spark._workers import classic_context
from penstock.storage import has_scheme, open_storage

__all__ = ["looking_first", "noting_options"]

#: Attribute of a writer: the options that it was given.
_GIVEN = "_penstock_options"
_LOCATION = "checkpointlocation"
#: In the trace of an error from the place where Spark makes the location: what is wrong there is not the sink.
_WHERE = ("org.apache.hadoop.fs.", "ResolveWriteToStream")
#: What stands before the words of an error within another one.
_CLASSES = re.compile(r"^(?:[\w.]+Exception: )+")


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

    A location that can't be looked at here (the session's default, a file system of Hadoop's) is left to Spark. What
    Spark says if it can't use it ends with a sentence of ours.
    """
    signature = inspect.signature(start)

    @functools.wraps(start)
    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        bound = signature.bind(writer, *args, **given).arguments
        options = {str(name).lower(): text for name, text in bound.get("options", {}).items()}
        options = {**getattr(writer, _GIVEN, {}), **options}
        if options.get(_LOCATION) is None:
            return start(writer, *args, **given)
        location = str(options[_LOCATION])
        _refuse_unusable(location, writer)
        _look_at(location, options)
        try:
            return start(writer, *args, **given)
        except Exception as error:
            said = _of_hadoop(error)
            if said is None:
                raise
            raise _unusable(f"{without_credentials(location)} can't be used: {said}") from error

    return wrapped


def _unusable(why: str) -> BadConfigurationError:
    return BadConfigurationError(
        f"option 'checkpointLocation': {why}. Name a directory that can be written, and that stays from run to run",
        error_code=NOT_WRITABLE,
    )


def _refuse_unusable(location: str, writer: Any) -> None:
    """Raises BadConfigurationError for a location that no query can use, as far as this process sees it."""
    if not location.strip():
        raise _unusable("it is empty")
    if "\0" in location or not _is_local(location, writer):
        return
    _, directory = open_storage(location, {})
    there = next((one for one in (Path(directory), *Path(directory).parents) if os.path.lexists(one)), None)
    if there is not None and not there.is_dir():
        what = "leads nowhere" if there.is_symlink() and not there.exists() else "is a file"
        raise _unusable(f"{there} {what}")
    if there is not None and not os.access(there, os.W_OK | os.X_OK):
        raise _unusable(f"this user can't write in {there}")


def _is_local(location: str, writer: Any) -> bool:
    if has_scheme(location):
        return location.lower().startswith("file:/")
    context = classic_context(writer._spark)
    return context is not None and Home.of(context, "") is LOCAL


def _of_hadoop(error: Exception) -> str | None:
    """Returns what a file system of Hadoop's has refused, in its words; ``None`` if the error is another one."""
    trace = f"{error}\n{getattr(error, '_stackTrace', '') or ''}"
    if isinstance(error, PenstockError) or "Traceback (most recent" in trace:
        return None
    if not all(where in trace for where in _WHERE):
        return None
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    said = str(java.getMessage() if java is not None else error).strip().splitlines()
    return _CLASSES.sub("", said[0] if said else type(error).__name__).rstrip(".")


def _look_at(location: str, options: dict[str, Any]) -> None:
    try:
        storage, path = open_storage(location, {name: str(text) for name, text in options.items()})
        SparkLog(storage, path).clear_unwritten()
        damage = damage_of(storage, path)
    except (PenstockError, OSError):
        return  # Spark, or the sink, says what is wrong with the location
    if damage:
        raise damage[0]
