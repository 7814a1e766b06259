"""The exception tree. An error says by its type what its handler should do.

::

    PenstockError
    ├── FatalError               stop; nothing will fix itself (a bug, a fenced driver, a store that refuses)
    │   ├── BadConfigurationError  the user can fix it: an option, a schema, a missing package
    │   ├── BadDataError           the input holds something that the chosen policy does not accept
    │   └── DataLostError          rows that were promised are gone; says which, and what to do
    └── RetriableError           try again: the same call, or the same batch after a restart, may succeed
        └── RetriesExhaustedError  it was tried again for ``retryTimeout``; only a restart tries further

Messages say what was wrong, where, and what to do, on one line. They never contain the value of a secret option.
Each error has a code, by which a person finds causes and remedies (``penstock explain CODE``, docs/errors.md).
"""

from __future__ import annotations

import sys

from penstock._error_book import code_for
from penstock.printable import concise

__all__ = [
    "BadConfigurationError",
    "BadDataError",
    "DataLostError",
    "FatalError",
    "PenstockError",
    "RetriableError",
    "RetriesExhaustedError",
]


class PenstockError(Exception):
    """Base of every error that Penstock raises on purpose.

    Messages quote names and answers from outside, so they are made printable, one line, and not too long
    (:func:`penstock.printable.concise`).
    ``error_code`` is the code of the situation. Without one it is that of an error that the message repeats, or that
    of the module which makes the error (:class:`penstock.error_codes.ErrorBook`). A stack trace has it in a line of its
    own below the message, which is how it crosses from Spark's workers.
    """

    #: Such as ``PENSTOCK-KAFKA-003``.
    error_code: str

    def __init__(self, *args: object, error_code: str = "") -> None:
        super().__init__(*(concise(one) if isinstance(one, str) else one for one in args))
        self._set_code(error_code or _repeated(self) or _of_place(self))

    def with_code(self, error_code: str) -> PenstockError:
        """Returns the error itself, with another code. For one place that makes the errors of many situations."""
        self._set_code(error_code)
        return self

    def _set_code(self, error_code: str) -> None:
        self.error_code = error_code
        if hasattr(self, "add_note"):  # Python 3.11
            self.__notes__ = [f"[{error_code}]"]


def _repeated(error: PenstockError) -> str:
    """Returns the code of the error that is being handled, if this one quotes it."""
    handled = sys.exc_info()[1]
    return handled.error_code if isinstance(handled, PenstockError) and str(handled) in str(error) else ""


def _of_place(error: PenstockError) -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is error:
        frame = frame.f_back
    names = tuple(one.__name__ for one in type(error).__mro__ if issubclass(one, PenstockError))
    return code_for(frame.f_globals.get("__name__", ""), names)


class FatalError(PenstockError):
    """The query must stop; a retry of the same thing fails in the same way."""


class BadConfigurationError(FatalError):
    """An option, a schema or the installation is wrong. The message names it and what to write instead."""


class BadDataError(FatalError):
    """Input that the chosen policy does not accept. The message names the file or split, and the position in it."""


class DataLostError(FatalError):
    """Rows that were accepted can no longer be read or published. The message names them and says what to do."""


class RetriableError(PenstockError):
    """A failure that may pass: a timeout, a lost connection, a batch that has to be written again."""


class RetriesExhaustedError(RetriableError):
    """A call kept failing for ``retryTimeout``; the message says which one, and how often it was made. Made by
    :class:`penstock.retry.RetryPolicy`. A restart of the query continues where it stopped.
    """
