"""How calls of a user's function are made, and the settings of ``enrich_async`` that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet, unless, when

__all__ = ["CallSettings", "settings_of"]

_REPEATED = (unless("attempts", "1"),)
#: The arguments that are values. Where one of them needs another, it is refused without it.
_SETTINGS = OptionSet(
    (
        Option("ordered", "Whether rows stay in order within a task", kind="bool", default="true"),
        Option("capacity", "How many calls of a task are in flight, at most", kind="int", default="100", minimum=1),
        Option("timeout", "How long a call may take", kind="duration", default="30s", minimum=1),
        Option("attempts", "How often a call is made, at most", kind="int", default="1", minimum=1),
        Option("pause", "The first pause before it is repeated", kind="duration", default="100ms", needs=_REPEATED),
        Option("longest_pause", "The longest pause", kind="duration", default="10s", needs=_REPEATED),
        Option("failures", "What a failure becomes", kind="choice", default="fail", choices=("fail", "null", "column")),
        Option("failure_column", "Where its reason goes", default="failure", needs=(when("failures", "column"),)),
        Option("group_size", "How many rows a call takes", kind="int", default="1", minimum=1),
        Option("cache_rows", "How many results a worker process keeps", kind="int", default="0", minimum=0),
        Option("cache_for", "For how long", kind="duration", default="10m", needs=(unless("cache_rows", "0"),)),
    )
)


@dataclass(frozen=True)
class CallSettings:
    """How calls are made. ``capacity`` is the most requests of a task at a time. Times in seconds.

    ``failures``: ``fail`` the query, give ``null``, or write the reason into ``failure_column`` (``column``). Calls are
    made ``attempts`` times at most for errors of ``retry_on``, with pauses from ``pause_s`` that double up to
    ``longest_pause_s``, each shortened at random. A cache of ``cache_rows`` keys serves one worker process.
    """

    ordered: bool = True
    capacity: int = 100
    timeout_s: float = 30.0
    attempts: int = 1
    pause_s: float = 0.1
    longest_pause_s: float = 10.0
    retry_on: tuple[type[Exception], ...] = (Exception,)
    failures: Literal["fail", "null", "column"] = "fail"
    failure_column: str = "failure"
    group_size: int = 1
    cache_rows: int = 0
    cache_for_s: float = 600.0


def settings_of(given: Mapping[str, Any], retry_on: tuple[type[Exception], ...] | None = None) -> CallSettings:
    """Returns the settings that a user gave as arguments of ``enrich_async``; ``None`` stands for the default.

    Raises BadConfigurationError for a value that can't be, and for one that would have no effect.
    """
    texts = {name: str(value) for name, value in given.items() if value is not None}
    values = _SETTINGS.parse(texts, owner="enrich_async")
    # The default of the longest pause gives way to a longer first one, which the user has set.
    longest_pause = (
        values["longest_pause"] if "longest_pause" in texts else max(values["longest_pause"], values["pause"])
    )
    if longest_pause < values["pause"]:
        raise BadConfigurationError("enrich_async: 'longest_pause' is shorter than 'pause'")
    if retry_on is not None:
        if values["attempts"] == 1:
            raise BadConfigurationError("enrich_async: 'retry_on' takes effect only with attempts other than 1")
        if not all(isinstance(one, type) and issubclass(one, Exception) for one in retry_on):
            raise BadConfigurationError("enrich_async: 'retry_on' is a tuple of classes of exceptions")
    return CallSettings(
        ordered=values["ordered"],
        capacity=values["capacity"],
        timeout_s=values["timeout"] / 1000,
        attempts=values["attempts"],
        pause_s=values["pause"] / 1000,
        longest_pause_s=longest_pause / 1000,
        retry_on=(Exception,) if retry_on is None else retry_on,
        failures=values["failures"],
        failure_column=values["failure_column"],
        group_size=values["group_size"],
        cache_rows=values["cache_rows"],
        cache_for_s=values["cache_for"] / 1000,
    )
