"""What may fail now and work later is tried again: by one policy, with the same words, everywhere.

The engine follows it for a connector: planning, fetching, making writers and committing are tried again after a
:class:`~penstock.errors.RetriableError`. A connector needs it only for what the engine can't repeat.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import PenstockError, RetriableError, RetriesExhaustedError
from penstock.metrics import Metrics
from penstock.printable import get_logger, printable
from penstock.system import system

if TYPE_CHECKING:
    from penstock.options import OptionValues

__all__ = ["NO_RETRIES", "WAITS_FOLDER", "Retries", "RetryPolicy", "may_pass"]

_log = get_logger("penstock.retry")
#: Environment variable with a folder in which each process keeps a file for as long as something does not work there:
#: the time since when (seconds since 1970), a line feed, what does not work. ``penstock run`` shows them.
WAITS_FOLDER = "PENSTOCK_WAITS_FOLDER"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
#: Between two lines of log about the same failure.
_SAY_EVERY_S = 10.0
#: What the system says of a network, a server or a mount that may come back.
_PASSING = frozenset(
    getattr(errno, name)
    for name in (
        *("EAGAIN", "EBUSY", "EINTR", "EIO", "EREMOTEIO", "ESTALE", "ETIMEDOUT"),
        *("ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EPIPE", "ESHUTDOWN"),
        *("EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETRESET", "ENETUNREACH"),
    )
    if hasattr(errno, name)
)
ResultT = TypeVar("ResultT")


def may_pass(error: BaseException) -> bool:
    """Returns whether the same call may succeed a little later.

    True for a RetriableError, unless it was tried again for ``retryTimeout`` already, and for an OSError of a network
    or a mount. Other errors (no rights, no such file, a full disk) need a person.
    """
    if isinstance(error, PenstockError):
        return isinstance(error, RetriableError) and not isinstance(error, RetriesExhaustedError)
    if not isinstance(error, OSError):
        return False
    is_vague = type(error) is OSError and error.errno is None  # as libraries raise it
    return is_vague or error.errno in _PASSING or isinstance(error, (ConnectionError, TimeoutError))


@dataclass(frozen=True)
class RetryPolicy:
    """For how long what fails is tried again: the option ``retryTimeout``. 0: not at all."""

    timeout_s: float = 120.0

    @classmethod
    def from_values(cls, values: OptionValues) -> RetryPolicy:
        """Returns the policy that the options of a connector ask for."""
        return cls(values["retryTimeout"] / 1000)

    def pause_s(self, failures: int) -> float:
        """Returns the seconds to wait after that many failures: 50 ms at first and 5 s at most, at random, so that
        tasks do not come back all at once.
        """
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures, 16))
        return system().uniform(longest / 2, longest)

    def exhausted(self, what: str, tries: int, lasted_s: float) -> RetriesExhaustedError:
        """Returns the error for a call that kept failing; ``what``: "reading split 3: node 10.0.0.1 is down"."""
        return RetriesExhaustedError(
            f"{what}; tried {tries} times in {_time(lasted_s)} (retryTimeout={_time(self.timeout_s)})"
        )

    def call(self, call: Callable[[], ResultT], doing: str = "", metrics: Metrics | None = None) -> ResultT:
        """Returns what ``call`` returns. Makes it again after an error that :func:`may_pass`.

        Sleeps in the calling thread. ``doing`` begins what is logged: "planning". Raises RetriesExhaustedError once the
        time is over, and any other error at once.
        """
        retries = Retries(self, doing, metrics)
        while True:
            try:
                result = call()
            except Exception as error:
                system().sleep(retries.failed(error))
            else:
                retries.worked()
                return result


#: For what must not wait.
NO_RETRIES = RetryPolicy(0.0)


class Retries:
    """The failures of one thing since it last worked. One thread.

    For a loop that does more between two tries than :meth:`RetryPolicy.call`, and for several calls at a time. Metrics:
    ``retries`` counts them, ``retry_ms`` is for how long it did not work.
    """

    def __init__(self, policy: RetryPolicy, doing: str = "", metrics: Metrics | None = None) -> None:
        self._policy = policy
        self._begin = f"{doing}: " if doing else ""
        self._metrics = metrics
        self._count = 0
        self._since = self._said = 0.0
        self._note: Path | None = None

    def failed(self, error: Exception, *, since: float | None = None, failures: int = 0) -> float:
        """Returns the seconds to wait before the next try.

        Of several calls at a time, each has a time of its own: ``since`` is when it was made first
        (``system().monotonic()``), ``failures`` how often it has failed before. Raises RetriesExhaustedError once the
        time is over, and ``error`` itself if it does not pass, or no time is given.
        """
        if not may_pass(error) or self._policy.timeout_s <= 0:
            raise error
        now = system().monotonic()
        if not self._count:
            self._since = now
        lasted = now - self._since
        since, failures = (self._since, self._count) if since is None else (since, failures)
        left = self._policy.timeout_s - (now - since)
        if failures and left <= 0:
            self._forget_note()
            raise self._policy.exhausted(f"{self._begin}{error}", failures + 1, now - since) from error
        # Further lines say what a person can do, which is nothing as long as it is tried again. Errors of ours show
        # their line breaks as ``\\n``.
        first = printable(str(error)).partition("\\n")[0]
        said = f"{self._begin}{first or repr(error)}"
        if not self._count:
            _log.warning("%s; trying again for up to %s (retryTimeout)", said, _time(self._policy.timeout_s))
            self._said = now
        elif now - self._said >= _SAY_EVERY_S:
            _log.warning("%s; this has lasted for %s", said, _time(lasted))
            self._said = now
        self._count += 1
        self._leave_note(said, lasted)
        if self._metrics is not None:
            self._metrics.add("retries")
        return min(self._policy.pause_s(failures + 1), max(0.0, left))

    def worked(self) -> None:
        """It works, or works again."""
        if not self._count:
            return
        self._forget_note()
        lasted = system().monotonic() - self._since
        _log.warning("%sit works again, after %s and %d more tries", self._begin, _time(lasted), self._count)
        if self._metrics is not None:
            self._metrics.add("retry_ms", int(lasted * 1000))
        self._count = 0

    def _leave_note(self, text: str, lasted_s: float) -> None:
        folder = os.environ.get(WAITS_FOLDER)
        if folder:
            self._note = Path(folder, f"{os.getpid()}-{id(self)}")
            # The run that shows it may have ended, and the folder is gone with it.
            with contextlib.suppress(OSError):
                self._note.write_text(f"{system().now_us() / 1e6 - lasted_s:.3f}\n{text}", encoding="utf-8")

    def _forget_note(self) -> None:
        if self._note is not None:
            with contextlib.suppress(OSError):
                self._note.unlink()
            self._note = None


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.0f}s" if seconds < 120 else f"{seconds / 60:.0f}m"
