"""Guards methods that the connections' loop calls, which would swallow their errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar, cast

from penstock.printable import get_logger
from penstock_kafka.client._errors import Problem
from penstock_kafka.client.producer._deliveries import Deliveries

__all__ = ["on_loop"]

_log = get_logger("penstock.kafka")


class _Delivering(Protocol):
    deliveries: Deliveries


LoopFunction = TypeVar("LoopFunction", bound=Callable[..., Any])


def on_loop(function: LoopFunction) -> LoopFunction:
    """Decorates a method that the loop calls: an unexpected error ends the producer instead of being swallowed."""

    def end(self: _Delivering, error: BaseException) -> None:
        _log.error("the Kafka client can't continue", exc_info=error)
        self.deliveries.fail(Problem("_FAIL", f"{type(error).__name__}: {error}", fatal=True), event=True)

    @wraps(function)
    def guarded(self: _Delivering, *arguments: Any) -> Any:
        try:
            return function(self, *arguments)
        except Exception as error:
            end(self, error)

    @wraps(function)
    async def guarded_async(self: _Delivering, *arguments: Any) -> Any:
        try:
            return await function(self, *arguments)
        except Exception as error:
            end(self, error)

    return cast("LoopFunction", guarded_async if iscoroutinefunction(function) else guarded)
