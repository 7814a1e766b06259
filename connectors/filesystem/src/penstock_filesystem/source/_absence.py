"""What is not there: a file that is gone, or away with the directory it was found in; or a store that lists it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.errors import PenstockError, RetriableError
from penstock.storage import Storage

__all__ = ["check_is_gone", "listing_error"]


def listing_error(storage: Storage, paths: Sequence[str], error: BaseException) -> PenstockError:
    """Returns the error for ``paths`` that could not be listed: what is wrong at the store, if that can be seen."""
    first = paths[0].partition("://")[2] or paths[0]
    said = f"{', '.join(paths)} could not be listed: {error}"
    return storage.no_answer(first, error) or RetriableError(said)


def check_is_gone(storage: Storage, path: str, roots: Iterable[str]) -> None:
    """Returns if a file that was just not found is gone, while those of ``roots`` that it is below are there.

    Raises RetriableError if one of them is away, or if the file is there: then it was away, and came back.
    """
    for root in roots:
        if path.startswith(f"{root.rstrip('/')}/"):
            storage.check_is_there(root)
    if storage.exists(path):
        raise RetriableError(f"{storage.url(path)} was not there for a moment")
