"""What an author tells the kit of the system that a source reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["SourceOrigin"]


@dataclass(frozen=True)
class SourceOrigin:
    """Where rows come from: empty at first, and nothing else writes there.

    ``options`` are those that a user would give to read there, as text: from the beginning, with discovery as often as
    it can be. ``put`` adds a row for each of the numbers, in this order; they are there on return.
    ``put_table`` adds rows with any columns, of which the first is ``id``, for a source whose schema the user gives:
    leave it out for others; it may raise NotImplementedError for a type that the system can't hold. ``unreachable`` is
    a context in which the system does not answer, and loses nothing: leave it out if that can't be had. It may be left
    in another thread than it was entered in. ``impatient`` are further options for that case: time limits, so that it
    does not take minutes. ``in_bulk`` are further options for the case about memory: splits as large as they are in
    production, if ``options`` make small ones.
    """

    options: Mapping[str, str]
    put: Callable[[Sequence[int] | range], object]
    put_table: Callable[[pa.Table], object] | None = None
    unreachable: Callable[[], AbstractContextManager[object]] | None = None
    impatient: Mapping[str, str] = field(default_factory=dict)
    in_bulk: Mapping[str, str] = field(default_factory=dict)
