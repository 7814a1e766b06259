"""What an author tells the kit of a target system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

__all__ = ["SinkTarget"]


@dataclass(frozen=True)
class SinkTarget:
    """A target that is empty, and its own: nothing else writes there.

    ``options`` are those that a user would give to write there, as text. ``read`` returns every row that any reader
    sees there now, as dictionaries. What you leave out of the rest is not proven, and the verdict names it:

    - ``read_table`` returns the rows as a table of the schema that it gets, which is that of the rows that were
      written. The values are those that the system holds: read them in their types, and do not correct them.
    - ``prepare`` adds a column to the target, for a system whose tables must exist: an Arrow field with its type. It
      raises NotImplementedError for a type that the system can't hold.
    - ``hidden`` names what is there and not visible (staged files, open transactions), for what lingers.
    - ``lose`` makes everything that was prepared and not committed impossible to commit: it removes staged files, or
      ends transactions, as a timeout would.
    - ``unreachable`` is a context in which the system does not answer, and loses nothing: its server is stopped, its
      folder is away. It may be left in another thread than it was entered in. ``impatient`` are further options for
      that case: time limits, so that it does not take minutes.
    - ``take`` removes everything that readers see, as a reader does that moves files away or deletes rows: leave it out
      where none does. The verdict names it then, and counts the case as one that does not apply.
    """

    options: Mapping[str, str]
    read: Callable[[], Sequence[Mapping[str, Any]]]
    hidden: Callable[[], Sequence[str]] | None = None
    lose: Callable[[], object] | None = None
    unreachable: Callable[[], AbstractContextManager[object]] | None = None
    read_table: Callable[[pa.Schema], pa.Table] | None = None
    prepare: Callable[[pa.Field], object] | None = None
    take: Callable[[], object] | None = None
    impatient: Mapping[str, str] = field(default_factory=dict)
