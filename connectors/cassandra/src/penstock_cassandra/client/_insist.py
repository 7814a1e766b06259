"""Tried again, with growing pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from penstock.errors import RetriableError

__all__ = ["insist"]

ResultT = TypeVar("ResultT")


def insist(call: Callable[[], ResultT], retry_for_s: float) -> ResultT:
    """What ``call`` returns; it is repeated after a RetriableError, which is raised once ``retry_for_s`` are over."""
    return Retrying(
        retry=retry_if_exception_type(RetriableError),
        stop=stop_after_delay(retry_for_s),
        wait=wait_random_exponential(multiplier=0.1, max=5),
        reraise=True,
    )(call)
