"""Calls that are made again after a failure that passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from penstock.errors import RetriableError

__all__ = ["retrying"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
ResultT = TypeVar("ResultT")


def retrying(
    call: Callable[[], ResultT],
    retry_for_s: float,
    *,
    also: tuple[type[Exception], ...] = (),
    on_retry: Callable[[], None] = lambda: None,
) -> ResultT:
    """Returns what ``call`` returns. Makes it again after a RetriableError, or one of ``also``, for ``retry_for_s``.

    Then raises the last error. Sleeps in the calling thread. Pauses grow from 50 ms to 5 s, and are random, so that
    many tasks do not come back at once. ``on_retry`` is called before each pause.
    """
    return Retrying(
        retry=retry_if_exception_type((RetriableError, *also)),
        stop=stop_after_delay(retry_for_s),
        wait=wait_random_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S),
        before_sleep=lambda _: on_retry(),
        reraise=True,
    )(call)
