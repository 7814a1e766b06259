"""What the connections' loop calls: errors end whoever is called, instead of being swallowed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar, cast

from penstock_kafka.client._problems import Problem

__all__ = ["of_loop"]

_log = logging.getLogger("penstock.kafka")


class _Loser(Protocol):
    def lose(self, problem: Problem, *, event: bool) -> None:
        """Ends it: nothing will come of it any more."""


LoopFunction = TypeVar("LoopFunction", bound=Callable[..., Any])


def of_loop(function: LoopFunction) -> LoopFunction:
    """A method that the loop calls, which would swallow its errors: nothing would be done, and nobody would know."""

    def end(self: _Loser, error: BaseException) -> None:
        _log.error("the Kafka client can't go on", exc_info=error)
        self.lose(Problem("_FAIL", f"{type(error).__name__}: {error}", fatal=True), event=True)

    @wraps(function)
    def guarded(self: _Loser, *arguments: Any) -> Any:
        try:
            return function(self, *arguments)
        except Exception as error:
            end(self, error)

    @wraps(function)
    async def guarded_async(self: _Loser, *arguments: Any) -> Any:
        try:
            return await function(self, *arguments)
        except Exception as error:
            end(self, error)

    return cast("LoopFunction", guarded_async if iscoroutinefunction(function) else guarded)
