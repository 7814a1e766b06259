"""Where a checkpoint is, and whether its store keeps what the decision log rests on: ``penstock/place.json``.

What a query leaves at its target is named by an id of the checkpoint. A copy of the checkpoint would take the
original's things for its own; so each knows where it was made, and a process that finds it elsewhere refuses it.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass

from penstock.errors import BadConfigurationError, FatalError
from penstock.serialization import malformed_is_bad_data
from penstock.storage import LocalStorage, Storage
from penstock.system import system

__all__ = ["CheckpointIdentity", "adopt", "open_identity", "read_place"]

FORMAT = 1


@dataclass(frozen=True)
class CheckpointIdentity:
    """``names``: what names at the target begin with, Spark's id of the query at first. ``url``: where it is."""

    id: str
    url: str
    names: str


def open_identity(storage: Storage, checkpoint: str, query_id: str) -> CheckpointIdentity:
    """Returns the place of a checkpoint; made, and its store tried out, if there is none yet.

    Raises BadConfigurationError for a copy, for one that was moved, and for a store without an atomic create.
    """
    here = _canonical(storage, checkpoint)
    path = f"{checkpoint}/penstock/place.json"
    try:
        place = read_place(storage, path)
    except FileNotFoundError:
        _try_out(storage, checkpoint)
        made = CheckpointIdentity(system().new_id(), here, query_id)
        if storage.create(path, _stored_form(made)):
            return made
        place = read_place(storage, path)
    if place.url != here:
        raise BadConfigurationError(
            f"{here} was copied or moved from {place.url}. If the old one is gone, run: penstock adopt {here} --moved; "
            f"if both are to continue, run: penstock adopt {here} --copy"
        )
    return place


def adopt(storage: Storage, checkpoint: str, *, is_copy: bool) -> CheckpointIdentity:
    """Makes a checkpoint that was moved, or is a copy, at home where it is. The caller knows that nothing is open.

    Raises BadConfigurationError for one that no sink has written with.
    """
    path = f"{checkpoint}/penstock/place.json"
    try:
        before = read_place(storage, path)
    except FileNotFoundError:
        raise BadConfigurationError(
            f"{storage.url(checkpoint)} does not know where it was made: no sink of penstock has written with it, or "
            "penstock/place.json was not copied. If rows were written with it, copy that file from the original, and "
            "call this again; otherwise there is nothing to accept"
        ) from None
    new_id = system().new_id()
    place = CheckpointIdentity(
        new_id if is_copy else before.id,
        _canonical(storage, checkpoint),
        f"{before.names.partition('~')[0]}~{new_id[:8]}" if is_copy else before.names,
    )
    storage.put(path, _stored_form(place))
    return place


def read_place(storage: Storage, path: str) -> CheckpointIdentity:
    """Returns what the file says. Raises FileNotFoundError, and BadDataError if it is damaged."""
    data = storage.read(path)
    with malformed_is_bad_data(storage.url(path)):
        stored = json.loads(data)
        if stored.pop("format") > FORMAT:
            raise FatalError(f"{storage.url(path)}: written by a newer penstock: upgrade this one")
        return CheckpointIdentity(**{name: str(text) for name, text in stored.items()})


def _stored_form(place: CheckpointIdentity) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(place)}, indent=1).encode()


def _canonical(storage: Storage, checkpoint: str) -> str:
    return os.path.realpath(checkpoint) if isinstance(storage, LocalStorage) else storage.url(checkpoint)


def _try_out(storage: Storage, checkpoint: str) -> None:
    """Creates one name twice: the second must be refused, and the first be there."""
    path = f"{checkpoint}/penstock/trial-{system().new_id()}"
    try:
        storage.create(path, b"first")  # False if an earlier try of this call was answered too late
        if storage.create(path, b"second") or storage.read(path) != b"first":
            raise BadConfigurationError(
                f"{storage.url(checkpoint)}: its store overwrites a file that is to be created only if absent, so "
                "that two drivers could decide the same batch. Put the checkpoint elsewhere"
            )
    finally:
        with contextlib.suppress(OSError):
            storage.delete([path])
