"""Splits, and how far a stream is: what is stored in Spark's offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.serialization import JsonSerializer

__all__ = ["SPLIT_SERIALIZER", "STATE_SERIALIZER", "TableState", "TokenRange", "TokenSplit"]


@dataclass(frozen=True)
class TokenRange:
    """Rows whose token is above ``after`` and at most ``until``; ``replicas`` hold them (``host:port``)."""

    after: int
    until: int
    replicas: tuple[str, ...] = ()


@dataclass(frozen=True)
class TokenSplit:
    """One piece of a table; cut where replicas change. Without ranges: all that the query finds (one partition).

    ``table_id``: of the table that it is a piece of; empty for one without an id.
    """

    number: int
    ranges: tuple[TokenRange, ...]
    size_bytes: int
    table_id: str = ""

    @property
    def split_id(self) -> str:
        """Its number."""
        return str(self.number)

    @property
    def group(self) -> str:
        """Each split counts."""
        return self.split_id


@dataclass(frozen=True)
class TableState:
    """Split ``next`` is the next one of ``count``, each of about ``split_bytes``. ``count`` 0: not planned yet.

    The plan is made once in the life of a stream. ``by_token`` false: the query is one split. ``table_id``: of the
    table that was planned for; empty for one without an id.
    """

    next: int
    count: int
    split_bytes: int
    partitioner: str
    by_token: bool = True
    table_id: str = ""


def _split_fields(split: TokenSplit) -> Any:
    # Replicas are named once; a split of many ranges repeats a few sets of them.
    sets = sorted({one.replicas for one in split.ranges})
    ranges = [[one.after, one.until, sets.index(one.replicas)] for one in split.ranges]
    return {"n": split.number, "b": split.size_bytes, "id": split.table_id, "replicas": sets, "ranges": ranges}


def _split_from(version: int, fields: Any) -> TokenSplit:
    sets = [tuple(one) for one in fields["replicas"]]
    ranges = tuple(TokenRange(after, until, sets[which]) for after, until, which in fields["ranges"])
    return TokenSplit(fields["n"], ranges, fields["b"], fields["id"] if version > 1 else "")


#: Version 1 had no ids of tables.
SPLIT_SERIALIZER: JsonSerializer[TokenSplit] = JsonSerializer(2, _split_fields, _split_from)
STATE_SERIALIZER: JsonSerializer[TableState] = JsonSerializer(
    2, lambda state: dict(vars(state)), lambda version, fields: TableState(**fields)
)
