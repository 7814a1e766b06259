"""Names that a stored form gives, as paths: a user who can write a checkpoint must not reach files elsewhere."""

from __future__ import annotations

from penstock.errors import FatalError

__all__ = ["path_below"]

_OUTSIDE = {".", ".."}


def path_below(directory: str, name: str) -> str:
    """Returns the path of ``name`` (relative) below ``directory``. Raises FatalError for a name that leads elsewhere.

    For every name that is read from a checkpoint or another stored form.
    """
    if name and not name.startswith("/") and "\0" not in name and _OUTSIDE.isdisjoint(name.split("/")):
        return f"{directory}/{name}"
    raise FatalError(
        f"a stored form names the file {name!r}, which is not below {directory}: another program has changed it, "
        "and perhaps more. Restore the checkpoint from a copy"
    )
