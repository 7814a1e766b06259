"""How transactional ids are made, and whose they are."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DEFAULT_PREFIX", "QueryPrefix"]

#: What the names of transactions begin with, if no option says otherwise.
DEFAULT_PREFIX = "penstock"
_SLOT = re.compile(r"[0-9a-f]{8}\.\d+")


@dataclass(frozen=True)
class QueryPrefix:
    """The transactional ids of one query: ``<prefix>.<query id>.<host>.<slot>``.

    ``host`` (8 hex digits) stands for a machine, ``slot`` counts what one machine has in use at a time: both are used
    again by later runs. The id of the query makes them its own, whatever prefix was set.
    """

    prefix: str
    query_id: str

    @property
    def text(self) -> str:
        """What every id of the query begins with, the dot included."""
        return f"{self.prefix}.{self.query_id}."

    def transactional_id(self, host: str, slot: int) -> str:
        """The id of one slot."""
        return f"{self.text}{host}.{slot}"

    def owns(self, transactional_id: str) -> bool:
        """Whether it is one of this query's ids; one that only begins alike is not."""
        return transactional_id.startswith(self.text) and bool(_SLOT.fullmatch(transactional_id[len(self.text) :]))
