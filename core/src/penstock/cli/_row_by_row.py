"""Which views a view follows from row by row, so that it can be made of one batch of them alone.

A count, a join of two streams or a ``DISTINCT`` has a state that lasts from batch to batch. Made inside the function of
``foreachBatch`` it would forget that state with every batch. (Streams in subqueries are refused by Spark.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["row_by_row"]

#: Nodes of an analysed plan with one child, each of whose rows gives rows of their own.
_ROW_BY_ROW = (
    *("Project", "Filter", "SubqueryAlias", "View", "Generate", "EventTimeWatermark", "ResolvedHint"),
    *("MapInPandas", "MapInArrow"),
)
#: Joins of a stream with a table, by the side on which the stream is.
_JOINS = {
    "left": ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"),
    "right": ("Inner", "Cross", "RightOuter"),
}


def row_by_row(name: str, frame: DataFrame) -> list[str]:
    """Returns ``name`` and the views that the frame follows from row by row, the nearest first, in lower case."""
    return [name.lower(), *dict.fromkeys(_views(frame._jdf.queryExecution().analyzed()))]


def _views(node: Any) -> Iterator[str]:
    named: dict[int, Any] = {}
    while node is not None:
        kind = node.nodeName()
        if kind == "WithCTE":
            named |= {one.id(): one.child() for one in _items(node.cteDefs())}
            node = node.plan()
        elif kind == "CTERelationRef":
            node = named.get(node.cteId())
        elif kind == "Join":
            node = _streaming_side(node)
        elif kind in _ROW_BY_ROW:
            if kind == "View" and node.isTempView():
                yield str(node.desc().identifier().table()).lower()
            node = node.child()
        else:
            return


def _streaming_side(join: Any) -> Any:
    """Returns the side of a join that is the stream; ``None`` if that is not all that the result depends on."""
    streaming = [side for side in ("left", "right") if getattr(join, side)().isStreaming()]
    if len(streaming) == 1 and join.joinType().toString() in _JOINS[streaming[0]]:
        return getattr(join, streaming[0])()
    return None


def _items(found: Any) -> list[Any]:
    """Returns a sequence of Scala's as a list."""
    return [found.apply(number) for number in range(found.size())]
