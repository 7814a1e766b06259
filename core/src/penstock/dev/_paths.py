"""Where development servers keep things."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder", "dev_home"]


def cache_folder() -> Path:
    """Returns the user's cache of Penstock: ``$XDG_CACHE_HOME/penstock``, else ``~/.cache/penstock``."""
    # The standard says that a relative path is to be ignored.
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "penstock"


def dev_home() -> Path:
    """Returns the folder of ``penstock dev``'s state and servers: ``PENSTOCK_DEV_HOME``, else ``dev`` in the cache."""
    given = os.environ.get("PENSTOCK_DEV_HOME")
    return Path(given).absolute() if given else cache_folder() / "dev"
