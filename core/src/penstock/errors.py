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
"""

from __future__ import annotations

from penstock.printable import printable

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

    Messages quote names and answers from outside, so they are made printable, and one line (:mod:`penstock.printable`).
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(one) if isinstance(one, str) else one for one in args))


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
