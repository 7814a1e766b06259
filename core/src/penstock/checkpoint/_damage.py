"""Files of a checkpoint that can't be read: each is named, with the way to repair it, before a query starts on them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.checkpoint._identity import read_place
from penstock.checkpoint._named import home_of, named_sinks
from penstock.checkpoint._spark_log import SparkLog
from penstock.checkpoint._stored import chain_of, query_id_of
from penstock.error_codes import DAMAGED
from penstock.errors import BadDataError
from penstock.serialization import MALFORMED, shortened
from penstock.storage import Storage
from penstock.system import in_parallel

__all__ = ["damage_of"]

#: Of what Spark writes; it says itself if one is newer than it can read.
_VERSION = re.compile("v[0-9]+")
_FROM_A_COPY = "put the checkpoint back from a copy, or start with a new checkpoint location"


def damage_of(storage: Storage, checkpoint: str) -> list[BadDataError]:
    """Returns an error for each file that the next start of the query would stumble over, each in words that say what
    to do. Reads the query's metadata, the last files of ``offsets`` and ``commits``, the newest decision of each sink
    and ``place.json``; what is not there is not damaged. Makes its requests at once, in two rounds. Raises what the
    storage raises.
    """
    found: list[BadDataError] = []

    def look(*reads: Callable[[], Any]) -> list[Any]:
        answers = in_parallel(_attempt, reads, storage.requests_at_once)
        found.extend(answer for answer in answers if isinstance(answer, BadDataError))
        return [None if isinstance(answer, BadDataError) else answer for answer in answers]

    def metadata() -> None:
        if storage.exists(f"{checkpoint}/metadata"):
            query_id_of(storage, checkpoint)

    def head(sink: str) -> Any:
        return chain_of(storage, home_of(checkpoint, sink)).head()

    log = SparkLog(storage, checkpoint)
    _, _, newest, sinks, planned, committed = look(
        metadata,
        partial(read_place, storage, f"{checkpoint}/penstock/place.json"),
        partial(head, ""),
        partial(named_sinks, storage, checkpoint),
        partial(log.last, "offsets"),
        partial(log.last, "commits"),
    )
    decided = newest.link.batch if newest is not None else -1
    look(
        *(partial(head, sink) for sink in sinks),
        *(partial(_check_offsets, storage, checkpoint, at, decided, committed) for at in (planned - 1, planned)),
        partial(_check_commit, storage, checkpoint, committed),
    )
    return found


def _attempt(read: Callable[[], Any]) -> Any:
    """Returns what ``read`` returns, the error if that is of a damaged file, or ``None`` where there is no file."""
    try:
        return read()
    except BadDataError as error:
        return error
    except FileNotFoundError:
        return None


def _check_offsets(storage: Storage, checkpoint: str, number: int, decided: int, committed: int) -> None:
    path = f"{checkpoint}/offsets/{number}"
    if number < 0 or not (problem := _problem_of_offsets(storage.read(path))):
        return
    if number == decided:
        repair = f"run: penstock restore-offsets {storage.url(checkpoint)}"
    elif number > max(decided, committed):
        repair = (
            f"nothing of batch {number} counts yet: remove this file and .{number}.crc next to it, and the next start "
            "plans the batch again"
        )
    else:
        repair = _FROM_A_COPY
    raise BadDataError(f"{storage.url(path)} is damaged ({problem}): {repair}", error_code=DAMAGED)


def _problem_of_offsets(data: bytes) -> str:
    """Returns what is wrong with a file of Spark's: a version, a line of JSON, then a line for each source."""
    if not data.strip():
        return "it is empty"
    lines = data.decode("utf-8", "replace").split("\n")
    if not _VERSION.fullmatch(lines[0]):
        return "it does not begin with a version"
    if len(lines) < 3:
        return "it is cut off"
    try:
        for line in lines[1:]:
            # Spark's own sources have forms of their own, a number or "-"; what begins as JSON is to be JSON.
            if line.startswith(("{", "[")):
                json.loads(line)
    except MALFORMED as error:
        return shortened(f"{type(error).__name__}: {error}")
    return "" if lines[1].startswith("{") else "its second line is no JSON"


def _check_commit(storage: Storage, checkpoint: str, number: int) -> None:
    path = f"{checkpoint}/commits/{number}"
    if number < 0:
        return
    lines = storage.read(path).decode("utf-8", "replace").split("\n")
    try:
        if _VERSION.fullmatch(lines[0]) and isinstance(json.loads("\n".join(lines[1:])), dict):
            return
    except MALFORMED:
        pass
    raise BadDataError(
        f"{storage.url(path)} is damaged: remove it and .{number}.crc next to it; the next start runs batch {number} "
        "again, and what is decided counts once",
        error_code=DAMAGED,
    )
