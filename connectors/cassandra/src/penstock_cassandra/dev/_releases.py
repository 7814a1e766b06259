"""What differs between releases of Cassandra: the Java that they run on, and the names of their settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import BadConfigurationError

__all__ = ["NEWEST", "Release"]

NEWEST = "5.0.9"
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?")
_OLDEST = (3, 11)
#: From this one on a setting's value has its unit. Before, its name has it.
_WITH_UNITS = (4, 1)
#: The first whose seeds have ports.
_PORTS = (4, 0)
#: The first with ``commitlog_sync: group``.
_GROUPS = (4, 0)
_UNITS = {
    "commitlog_sync_period": "ms",
    "commitlog_sync_group_window": "ms",
    "memtable_heap_space": "mb",
    "memtable_offheap_space": "mb",
    "key_cache_size": "mb",
    "file_cache_size": "mb",
    "commitlog_segment_size": "mb",
    "commitlog_total_space": "mb",
}
_RENAMED = {"materialized_views_enabled": "enable_materialized_views"}


class Release:
    """A release, as ``4.1.10``. Raises BadConfigurationError for what is no version, or too old."""

    def __init__(self, version: str) -> None:
        found = _NUMBERS.fullmatch(version)
        if found is None:
            raise BadConfigurationError(f"'{version}' is no version of Cassandra: write it as {NEWEST}")
        self.version = version
        self._line = (int(found[1]), int(found[2]))
        if self._line < _OLDEST:
            raise BadConfigurationError(f"Cassandra {version} is too old to be started here: from 3.11.0 on")

    @property
    def java(self) -> tuple[int, int]:
        """The lowest and the highest major version of Java that it runs on."""
        if self._line < (4, 0):
            return 8, 8
        return (8, 11) if self._line < (5, 0) else (11, 17)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Its coordinates in Maven's repositories.

        Before 4.0 the server knew a second protocol, whose classes it needs.
        """
        names = ("cassandra-all",) if self._line >= (4, 0) else ("cassandra-all", "cassandra-thrift")
        return tuple(f"org.apache.cassandra:{name}:{self.version}" for name in names)

    def named(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns settings of the newest release as this one knows them."""
        if self._line >= _WITH_UNITS:
            return dict(settings)
        known = dict(settings)
        if self._line < _PORTS:
            known["seed_provider"] = json.loads(
                re.sub(r"(\"seeds\": \"[^\":]*):\d+", r"\1", json.dumps(known["seed_provider"]))
            )
        if self._line < _GROUPS and known.get("commitlog_sync") == "group":
            # It acknowledges nothing sooner than "group" does.
            known |= {"commitlog_sync": "batch", "commitlog_sync_batch_window_in_ms": 2}
            known["commitlog_sync_group_window"] = None
        return dict(_old(name, value) for name, value in known.items())


def _old(name: str, value: Any) -> tuple[str, Any]:
    unit = _UNITS.get(name)
    if unit is None:
        return _RENAMED.get(name, name), value
    number = None if value is None else int(re.match(r"\d+", str(value))[0])  # type: ignore[index]
    return f"{name}_in_{unit}", number
