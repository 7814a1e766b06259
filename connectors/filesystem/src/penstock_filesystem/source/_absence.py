"""A file that is not there: gone, or away together with the directory it was found in."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import RetriableError
from penstock.storage import Storage

__all__ = ["check_is_gone"]


def check_is_gone(storage: Storage, path: str, roots: Iterable[str]) -> None:
    """Returns if a file that was just not found is gone, while those of ``roots`` that it is below are there.

    Raises RetriableError if one of them is away, or if the file is there: then it was away, and came back.
    """
    for root in roots:
        if path.startswith(f"{root.rstrip('/')}/"):
            storage.check_is_there(root)
    if storage.exists(path):
        raise RetriableError(f"{storage.url(path)} was not there for a moment")
