"""What a query's decision log has to say since it was last looked at."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from penstock._commit import BEFORE_ALL, Chain, Head, Link, LinkKind

__all__ = ["DecisionReader", "Decisions", "count_open"]


@dataclass
class Decisions:
    """What was carried out since the last look, and what is open now."""

    commits: int = 0
    lost: int = 0
    rows: int = 0
    size_bytes: int = 0
    published: int = 0
    pending: int = 0
    parts: int = 0

    def __add__(self, other: Decisions) -> Decisions:
        """Returns those of two logs together."""
        return Decisions(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


class DecisionReader:
    """Follows a decision log, link by link. It only reads. Single thread.

    What was carried out before it was made is not counted, unless it reads ``from_start``. Links that were deleted
    before a look, which happens after more than 32 others, are not counted either.
    """

    def __init__(self, chain: Chain, *, from_start: bool = False) -> None:
        self._chain = chain
        self._counted = -1
        if from_start:
            return
        head = chain.head()
        #: The number of the last link that is counted.
        self._counted = head.link.number if head.pending is None else head.pending - 1

    def look(self) -> Decisions | None:
        """Returns the news; ``None`` if nothing was ever decided, as for a sink that commits nothing.

        Costs a listing, and a read for each new link. Raises what the storage raises.
        """
        head = self._chain.head()
        if head.link is BEFORE_ALL:
            return None
        is_open = count_open(self._chain, head)
        news = Decisions(pending=is_open["committables"], parts=is_open["parts"])
        upto = head.link.number if head.pending is None else head.pending - 1
        # A link is given up by a later one, which says so.
        links = [link for number in range(self._counted + 1, upto + 1) if (link := self._find(number)) is not None]
        before = {link.number: link for link in links}
        lost = set()
        for link in links:
            if link.kind is LinkKind.LOST:
                news.lost += 1
                previous = before.get(link.number - 1) or self._find(link.number - 1)
                if previous is not None and previous.pending is not None:
                    lost.add(previous.pending)
        for link in links:
            if link.number in lost:
                continue
            if link.kind is LinkKind.BATCH:
                news.commits += 1
                news.rows += link.metrics.get("rows_written", 0)
                news.size_bytes += link.metrics.get("bytes_written", 0)
            if link.kind in (LinkKind.BATCH, LinkKind.ROLL, LinkKind.CLOSE):
                news.published += _committables(link)
        self._counted = max(self._counted, upto)
        return news

    def _find(self, number: int) -> Link | None:
        try:
            return self._chain.read(number)
        except FileNotFoundError:
            return None


def count_open(chain: Chain, head: Head) -> dict[str, int]:
    """Returns the ``committables`` that are decided and not published, and the ``parts`` that are carried on."""
    pending = 0 if head.pending is None else _committables(chain.read(head.pending))
    return {"committables": pending, "parts": len(head.link.states)}


def _committables(link: Link) -> int:
    return sum(len(output.committables) for output in link.outputs)
