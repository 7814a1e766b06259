"""Groups of sinks that a batch function commits together: their members, and what has been prepared for a batch.

Below the group's place, which is that of a named sink: ``penstock/group.json`` lists the members, each of which has a
place of its own, ``<member>/``; ``penstock/prepared/<plan>-<member>.json`` is what the tasks of a write have left.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock._commit import TaskOutput
from penstock.checkpoint._stored import group_path, make_sink, name_is_taken, read_form, sink_path
from penstock.errors import BadConfigurationError, FatalError
from penstock.retry import RetryPolicy
from penstock.serialization import malformed_is_bad_data
from penstock.sink import Member, SinkUnion, as_one
from penstock.storage import Storage, path_below

__all__ = ["Prepared", "load_group", "members_of", "options_by_member", "remember_group"]

_FORMAT = 1


def remember_group(storage: Storage, home: str, members: Sequence[str]) -> None:
    """Stores which members a group has. Writes only if something changed.

    Raises BadConfigurationError where a sink is stored.
    """
    data = json.dumps({"format": _FORMAT, "members": list(members)}).encode()
    before = members_of(storage, home)
    if before is None and storage.exists(sink_path(home)):
        raise name_is_taken(home, "a sink")
    if before != list(members):
        storage.put(group_path(home), data)


def members_of(storage: Storage, home: str) -> list[str] | None:
    """Returns the names of a group's members, in order; ``None`` if there is no group."""
    path = group_path(home)
    try:
        data = storage.read(path)
    except FileNotFoundError:
        return None
    with malformed_is_bad_data(storage.url(path)):
        return [str(name) for name in _opened(storage, path, data)["members"]]


def _opened(storage: Storage, path: str, data: bytes) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(data)
    if stored["format"] > _FORMAT:
        raise FatalError(f"{storage.url(path)} was written by a newer penstock: upgrade this one")
    return stored


def load_group(
    storage: Storage,
    home: str,
    names: Iterable[str],
    options: Mapping[str, Mapping[str, str]],
    connectors: Mapping[str, str] | None = None,
) -> tuple[SinkUnion, RetryPolicy]:
    """Returns the members that have been written to, with the ``options`` of each, and for how long to wait for them.

    ``connectors``: the name of each one's connector now. One that was another's is returned as it was stored, to end
    what it has begun; it is left out if that lacks an option, such as a password.

    Raises as :func:`penstock.checkpoint._stored.load_sink` does.
    """
    members, has_unknown, retry = [], False, RetryPolicy(0)
    for name in names:
        try:
            form = read_form(storage, sink_path(f"{home}/{name}"))
        except FileNotFoundError:
            has_unknown = True  # its first write may be the next one
            continue
        is_another = form.name != (connectors or {}).get(name, form.name)
        has_unknown = has_unknown or is_another
        try:
            _, sink, schema, patience = make_sink(form, None if is_another else options.get(name))
        except BadConfigurationError:
            if is_another:
                continue
            raise
        members.append(Member(name, sink, schema))
        retry = max(retry, patience, key=lambda one: one.timeout_s)
    return as_one(members, has_unknown=has_unknown), retry


def options_by_member(options: Mapping[str, str], members: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns options that are written ``<member>.<option>`` by member. Raises BadConfigurationError for others."""
    found: dict[str, dict[str, str]] = {}
    for name, text in options.items():
        member, _, option = name.partition(".")
        if member not in members or not option:
            raise BadConfigurationError(f"option '{name}': say whose it is, such as {members[0]}.{name}")
        found.setdefault(member, {})[option] = text
    return found


class Prepared:
    """What the tasks of each member's write have left for one batch, as files. Driver; several processes."""

    def __init__(self, storage: Storage, home: str) -> None:
        self._storage = storage
        self._directory = f"{home}/penstock/prepared"

    def _path(self, plan_id: str, member: str) -> str:
        return path_below(self._directory, f"{plan_id}-{member}.json")

    def put(self, plan_id: str, member: str, outputs: Iterable[TaskOutput], metrics: Mapping[str, int]) -> None:
        """Stores what a write has left, in place of what an earlier try of the same call has stored."""
        value = {"format": _FORMAT, "outputs": [one.to_json() for one in outputs], "metrics": dict(metrics)}
        self._storage.put(self._path(plan_id, member), json.dumps(value).encode(), durable=False)

    def get(self, plan_id: str, member: str) -> tuple[tuple[TaskOutput, ...], dict[str, int]]:
        """Returns what a write has left. Raises FileNotFoundError once another run has begun."""
        path = self._path(plan_id, member)
        data = self._storage.read(path)
        with malformed_is_bad_data(self._storage.url(path)):
            value = _opened(self._storage, path, data)
            outputs = tuple(TaskOutput.from_json(one) for one in value["outputs"])
            return outputs, {str(name): int(amount) for name, amount in value["metrics"].items()}

    def forget(self) -> None:
        """Removes everything: a batch is over, or a run begins, and makes void what others have prepared."""
        self._storage.delete(f"{self._directory}/{name}" for name in self._storage.list_names(self._directory))
