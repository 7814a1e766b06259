"""What an enumerator must know before it can plan its first micro-batch, asked for in the background."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import RetriableError
from penstock.source._contracts import EnumeratorContext

__all__ = ["FirstAnswer"]


class FirstAnswer:
    """Whether the first answer has come, or why not. Coordinator thread only: handlers of background calls run there.

    ``what`` names it in errors: "partitions". ``ask_again`` is called once a failure was raised, for an enumerator that
    does not ask at intervals. ``timeout_s`` is for a system whose first answer takes long, as a scan does.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        what: str,
        ask_again: Callable[[], None] = lambda: None,
        *,
        timeout_s: float = 120,
    ) -> None:
        self._context = context
        self._what = what
        self._ask_again = ask_again
        self._timeout_s = timeout_s
        self._failure: BaseException | None = None
        self.is_known = False

    def arrived(self) -> None:
        """The answer is there. A failure before it that was not raised yet is forgotten."""
        self.is_known, self._failure = True, None

    def failed(self, error: BaseException | None) -> None:
        """A call for it failed."""
        self._failure = error

    def wait(self) -> None:
        """Returns once the answer is there. Raises the failure of the last call, once, or RetriableError if nothing
        comes within ``timeout_s``.
        """
        if not self.is_known:
            timeout_ms = int(self._timeout_s * 1000)
            self._context.await_handlers(lambda: self.is_known or self._failure is not None, timeout_ms)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._ask_again()
            raise failure
        if not self.is_known:
            raise RetriableError(f"no answer about {self._what} within {self._timeout_s:g} s")
