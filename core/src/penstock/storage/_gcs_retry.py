"""How often a request to Google's store is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.api_core.retry import Retry

__all__ = ["Tries"]


class Tries(Retry):  # type: ignore[misc]
    """Makes each request up to ``tries`` times, as long as its error ``may_pass``.

    Google's own class knows a time only, which a single request may take up by waiting for its answer.
    """

    def __init__(
        self, may_pass: Callable[[BaseException], bool], tries: int, first_pause_s: float, longest_pause_s: float
    ) -> None:
        super().__init__(may_pass, initial=first_pause_s, maximum=longest_pause_s, multiplier=2, timeout=None)
        self._may_pass = may_pass
        self._tries = tries
        self._pauses_s = {"initial": first_pause_s, "maximum": longest_pause_s}

    def __call__(self, request: Callable[..., Any], on_error: Callable[[Exception], Any] | None = None) -> Any:
        """Returns a function that makes one request."""
        made = 0

        def may_be_made_again(error: BaseException) -> bool:
            nonlocal made
            made += 1
            return made < self._tries and self._may_pass(error)

        return Retry(may_be_made_again, **self._pauses_s, multiplier=2, timeout=None)(request, on_error)
