"""How transactional ids are made, and whose they are."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DEFAULT_PREFIX", "FIRST_EDITION", "QueryPrefix"]

#: What the names of transactions begin with, if no option says otherwise.
DEFAULT_PREFIX = "penstock"
#: The generation of ids that have none: the first edition made them.
FIRST_EDITION = -1
_SLOT = re.compile(r"(?:(\d+)\.)?[0-9a-f]{8}\.\d+")


@dataclass(frozen=True)
class QueryPrefix:
    """The transactional ids of one query: ``<prefix>.<query id>.<generation>.<name>.<slot>``.

    ``generation`` is that of the run (see :class:`penstock.sink.WriterContext`): shutting out the producers of earlier
    ones can't hit a later one's, however late it is done. ``slot`` counts what one machine has in use at a time,
    ``name`` (8 hex digits) is that slot's: both are used again. The id of the query makes the ids its own, whatever
    prefix was set.
    """

    prefix: str
    query_id: str

    @property
    def text(self) -> str:
        """What every id of the query begins with, the dot included."""
        return f"{self.prefix}.{self.query_id}."

    def transactional_id(self, generation: int, name: str, slot: int) -> str:
        """Returns the id of one slot."""
        return f"{self.text}{generation}.{name}.{slot}"

    def generation_of(self, transactional_id: str) -> int | None:
        """Returns the generation of one of this query's ids; ``None`` for another's, also for one that only begins
        alike.
        """
        if not transactional_id.startswith(self.text):
            return None
        found = _SLOT.fullmatch(transactional_id[len(self.text) :])
        if found is None:
            return None
        return FIRST_EDITION if found[1] is None else int(found[1])

    def owns(self, transactional_id: str) -> bool:
        """Returns whether it is one of this query's ids."""
        return self.generation_of(transactional_id) is not None
