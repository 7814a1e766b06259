"""Look, then publish: how a decision is carried out, and when it is given up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock._commit._chain import Chain, Link, committables_of
from penstock.errors import DataLostError, FatalError, RetriableError
from penstock.printable import get_logger
from penstock.sink import Committer, Found, SinkContext, TwoPhaseCommitSink

__all__ = ["DisplacedError", "Publishing", "displaced", "ended", "undone"]

_log = get_logger("penstock.sink")


class DisplacedError(FatalError):
    """Another run has taken the decision log over. Nothing is lost by it; this run stops."""


def displaced(chain: Chain, head: Link) -> DisplacedError:
    """Returns the error of a run that is not the owner any more."""
    return DisplacedError(
        f"another run has carried this checkpoint on ({chain.directory}: link {head.number} of run {head.run}); this "
        "one stops. Nothing is lost: run one query for each checkpoint"
    )


def undone(chain: Chain) -> DisplacedError:
    """Returns the error of a batch write that another process has undone while it ran."""
    return DisplacedError(
        f"this write was undone while it ran ({chain.directory}), by penstock finish --take-over: nothing of it is "
        "visible. Write it again"
    )


def ended(chain: Chain) -> DisplacedError:
    """Returns the error of a batch write whose log another process has removed. An earlier request of this one may have
    decided it, if the answer was lost.
    """
    return DisplacedError(
        f"this write was ended while it ran ({chain.directory}), by penstock finish: all of it is visible, or nothing. "
        "Look at the target before you write it again"
    )


class Publishing:
    """Carries out links. Driver, single thread. ``_two_phase.py`` says which process may call it."""

    def __init__(self, sink: TwoPhaseCommitSink[Any, Any], context: SinkContext, chain: Chain) -> None:
        self._sink = sink
        self._context = context
        self._chain = chain

    def carry_out(self, link: Link, *, owner: int | None) -> bool:
        """Publishes everything that ``link`` names and marks it done. Safe to repeat, and to do in two processes: what
        fails and may pass is done again, from the look on, for ``retryTimeout``.

        False if it is lost: nothing of it is published, and no process can publish any of it any more; ``owner`` is the
        base of the run that asks, which alone may find that out. Raises DataLostError if a part is published and
        another part is lost.
        """
        what = f"publishing batch {link.batch}"
        return self._context.retry.call(lambda: self._carry_out(link, owner), what, self._context.metrics)

    def _carry_out(self, link: Link, owner: int | None) -> bool:
        with self._committer(link, owner) as (committer, committables):
            if not self._publish(committer, link, committables, owner):
                return False
        self._chain.mark_done(link.number)
        return True

    def seal(self, link: Link) -> None:
        """Makes it impossible for any process to publish what is not published yet of ``link``."""
        with self._committer(link, None) as (committer, committables):
            committer.seal(committables)

    def publish_what_is_left(self, link: Link, owner: int) -> None:
        """Publishes what can be and is not yet, and marks ``link`` done without the rest. ``owner`` is the base of the
        run that asks; raises DisplacedError if it is not the log's any more.
        """
        with self._committer(link, owner) as (committer, committables):
            for one in committables:
                try:
                    if committer.look([one]) != [Found.COMMITTED]:
                        self._are_published(committer, [one])
                except DisplacedError:
                    raise
                except FatalError as error:  # its outcome is unknown from now on
                    _log.warning("left as it is: %s", error)
        self._check_owner(link, owner)
        self._chain.mark_done(link.number)

    @contextlib.contextmanager
    def _committer(self, link: Link, owner: int | None) -> Iterator[tuple[Committer[Any, Any], list[Any]]]:
        committables = [self._sink.committable_serializer.unpack(one) for one in committables_of(link.outputs)]
        context = replace(self._context, check_owner=lambda: self._check_owner(link, owner))
        with contextlib.closing(self._sink.create_committer(context)) as committer:
            yield committer, committables

    def _check_owner(self, link: Link, owner: int | None) -> None:
        head = self._chain.head()
        if head.pending != link.number or (owner is not None and head.link.base != owner):
            raise displaced(self._chain, head.link)

    # A process may sleep between any two lines here, and another one may publish the link or give it up meanwhile. The
    # first committable decides between them: it is published, or sealed, before any other. The target grants it to only
    # one of them, however late the other one asks.

    def _publish(self, committer: Committer[Any, Any], link: Link, committables: list[Any], owner: int | None) -> bool:
        while True:
            found = committer.look(committables)
            if Found.LOST in found:
                if self._is_given_up(committer, link, committables, found, owner):
                    return False
                continue
            left = [one for one, state in zip(committables, found, strict=True) if state is Found.OPEN]
            if committer.first_decides and len(left) > 1 and Found.COMMITTED not in found:
                first, *left = left
                if not self._are_published(committer, [first]):
                    continue
            # Asked for also if nothing is left: it may have something to say about the batch as a whole.
            if self._are_published(committer, left):
                return True
            # One was lost between looking and publishing: look again.

    def _are_published(self, committer: Committer[Any, Any], committables: list[Any]) -> bool:
        """Publishes. Returns False if one is lost. Raises RetriableError if one is still open."""
        found = committer.publish(committables)
        if Found.LOST in found:
            return False
        still_open = [one for one, state in zip(committables, found, strict=True) if state is Found.OPEN]
        if still_open:
            raise RetriableError(f"{self._text(still_open)} could not be published")
        return True

    def _is_given_up(
        self,
        committer: Committer[Any, Any],
        link: Link,
        committables: list[Any],
        found: list[Found],
        owner: int | None,
    ) -> bool:
        """Handles a loss with nothing published: seals everything, and looks again. Seals what is lost as well, since
        one that will not last is called lost while it could still be published. False if another process was faster,
        and publishes: then everything is to be looked at again.
        """
        lost = [one for one, state in zip(committables, found, strict=True) if state is Found.LOST]
        if Found.COMMITTED not in found and owner is not None:
            first, rest = (committables[:1], committables[1:]) if committer.first_decides else ([], committables)
            if first:
                committer.seal(first)
                if Found.COMMITTED in committer.look(first):
                    return False
            _log.warning("%s can't be published any more; link %d is given up", self._text(lost), link.number)
            if rest:
                committer.seal(rest)
            found = committer.look(committables)
            if Found.COMMITTED not in found:
                return True
        self._say_what_is_lost(link, lost, owner)
        return True

    def _say_what_is_lost(self, link: Link, lost: list[Any], owner: int | None) -> None:
        head = self._chain.head()
        if owner is None:
            return  # a roll that another process has given up, or will
        if link.number in head.done or head.pending != link.number or head.link.base != owner:
            raise displaced(self._chain, head.link)
        raise DataLostError(
            f"batch {link.batch}: {self._text(lost)} can't be published any more, while other parts of the batch are. "
            f"Run: penstock resolve {self._chain.checkpoint} --drop-lost (their rows are missing) or --write-all-again "
            "(the others' rows are duplicated), and start the query again"
        )

    def _text(self, lost: list[Any]) -> str:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        return ", ".join(self._sink.describe_committable(one) for one in lost[:3]) + more
