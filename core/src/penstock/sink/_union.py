"""Several sinks as one, so that one link of a decision log decides for all of them.

The protocol sees a :class:`TwoPhaseCommitSink` whose committables and states each belong to a member. Tasks see the
members themselves: each is written to by a write of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from penstock.errors import FatalError
from penstock.serialization import JsonSerializer, SimpleVersionedSerializer, Versioned
from penstock.sink._contracts import (
    CheckpointLocation,
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    SinkContext,
    StateReplacement,
    StateRoller,
    SupportsStateRolling,
    SupportsWriteTimestamps,
    TwoPhaseCommitSink,
    WriterContext,
    describe_state,
    state_serializer_of,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Member", "Owned", "SinkUnion", "SupportsMembers", "as_one", "member_of", "owned", "targets_of"]

ContextT = TypeVar("ContextT", bound=SinkContext)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Member:
    """One sink of a group. ``schema`` is that of its rows."""

    name: str
    sink: TwoPhaseCommitSink[Any, Any]
    schema: pa.Schema

    def names_in(self, group: str) -> str:
        """Returns what the names of this member begin with, if those of its group begin with ``group``."""
        return f"{group}.{self.name}"

    def context_of(self, group: ContextT) -> ContextT:
        """Returns the context of this member in a group's: with names, and a place for what it keeps, of its own."""
        place = group.checkpoint
        if place is not None:
            place = CheckpointLocation(place.storage, f"{place.path}/{self.name}")
        return replace(group, query_id=self.names_in(group.query_id), schema=self.schema, checkpoint=place)


class Owned(NamedTuple):
    """A committable, or a piece of state, of one member. Its stored form is what the member's serializer makes."""

    member: str
    value: Any


def owned(member: str, stored: Versioned) -> Versioned:
    """Returns the stored form of something of a member's, made from the member's own form of it."""
    return _FORMS.pack((member, stored))


_FORMS: JsonSerializer[tuple[str, Versioned]] = JsonSerializer(
    1,
    lambda form: {"member": form[0], **form[1].to_json()},
    lambda _, fields: (str(fields["member"]), Versioned.from_json(fields)),
)


class _OwnedSerializer(SimpleVersionedSerializer[Owned]):
    """The form that the member's serializer makes, with the member's name."""

    version = _FORMS.version

    def __init__(self, serializer_of: Callable[[str], SimpleVersionedSerializer[Any]]) -> None:
        self._serializer_of = serializer_of

    def serialize(self, value: Owned) -> bytes:
        return _FORMS.serialize((value.member, self._serializer_of(value.member).pack(value.value)))

    def deserialize(self, version: int, data: bytes) -> Owned:
        member, stored = _FORMS.deserialize(version, data)
        return Owned(member, self._serializer_of(member).unpack(stored))


class SupportsMembers(ABC):
    """Of a sink whose committables and pieces of state each belong to a member, with a target of its own."""

    @property
    @abstractmethod
    def targets(self) -> dict[str, str]:
        """Where rows go, by member."""

    @abstractmethod
    def member_of(self, stored: Versioned) -> str:
        """Returns whose a stored committable or piece of state is, even if the sink no longer has that member."""


def targets_of(sink: TwoPhaseCommitSink[Any, Any]) -> dict[str, str]:
    """Returns where rows go, by member; a sink without members has one, whose name is empty."""
    return sink.targets if isinstance(sink, SupportsMembers) else {"": sink.target}


def member_of(sink: TwoPhaseCommitSink[Any, Any], stored: Versioned) -> str:
    """Returns whose a stored committable or piece of state is, as :func:`targets_of` names members."""
    return sink.member_of(stored) if isinstance(sink, SupportsMembers) else ""


class SinkUnion(TwoPhaseCommitSink[Owned, Owned], SupportsStateRolling[Owned, Owned], SupportsMembers):
    """The members in order, which is that of publishing. Driver only. See :func:`as_one`."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members: Mapping[str, Member] = {member.name: member for member in members}

    def _member(self, name: str) -> Member:
        if name not in self.members:
            raise FatalError(
                f"the decision log holds what was written to '{name}', and there is no such sink in the group any "
                "more: add it again as it was"
            )
        return self.members[name]

    def _with(self, members: Sequence[Member]) -> Self:
        return type(self)(members)

    def _serializer(self, of: Callable[[str], SimpleVersionedSerializer[Any]]) -> SimpleVersionedSerializer[Owned]:
        return _OwnedSerializer(of)

    @property
    def targets(self) -> dict[str, str]:
        """Those of the members, which may have members themselves."""
        return {
            _joined(name, inner): target
            for name, member in self.members.items()
            for inner, target in targets_of(member.sink).items()
        }

    def member_of(self, stored: Versioned) -> str:
        """Names the member, and the member's own one."""
        name, own = self._split(stored)
        return _joined(name, member_of(self.members[name].sink, own)) if name in self.members else name

    def _split(self, stored: Versioned) -> tuple[str, Versioned]:
        """Returns whose it is, and the member's own form of it."""
        return _FORMS.unpack(stored)

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer[Owned]:
        """The member's form, with its name."""
        return self._serializer(lambda name: self._member(name).sink.committable_serializer)

    @property
    def state_serializer(self) -> SimpleVersionedSerializer[Owned]:
        """The member's form, with its name."""
        return self._serializer(lambda name: state_serializer_of(self._member(name).sink))

    def owner_key(self, state: Owned) -> str:
        """The member's key: states of two members may be rolled by one task, or not."""
        sink = self._member(state.member).sink
        return sink.owner_key(state.value) if isinstance(sink, SupportsStateRolling) else ""

    @property
    def holds_back_readers(self) -> bool:
        """Whether one member does."""
        return any(member.sink.holds_back_readers for member in self.members.values())

    def start(self, context: SinkContext) -> Self:
        """Starts every member."""
        return self._with([replace(one, sink=one.sink.start(one.context_of(context))) for one in self.members.values()])

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Owned, Owned]:
        """Raises FatalError: rows are written to a member."""
        raise FatalError("a group of sinks is written to member by member")

    def create_committer(self, context: SinkContext) -> Committer[Owned, Owned]:
        """Makes the committer of all members."""
        return _UnionCommitter(
            {name: one.sink.create_committer(one.context_of(context)) for name, one in self.members.items()}
        )

    def create_roller(self, context: WriterContext) -> StateRoller[Owned, Owned]:
        """Makes a roller for what members carry."""
        return _UnionRoller(self.members, context)

    def describe_committable(self, committable: Owned) -> str:
        """The member's words, with its name."""
        words = self._member(committable.member).sink.describe_committable(committable.value)
        return _after(committable.member, words)

    def describe_state(self, state: Owned) -> str:
        """The member's words, with its name."""
        return _after(state.member, describe_state(self._member(state.member).sink, state.value))


class _StampedUnion(SinkUnion, SupportsWriteTimestamps):
    """With a member whose rows need write timestamps: all get them."""


def as_one(members: Sequence[Member], *, has_unknown: bool = False) -> SinkUnion:
    """Returns ``members`` as one sink. ``has_unknown``: whether there is another one, which may need anything."""
    stamped = has_unknown or any(isinstance(member.sink, SupportsWriteTimestamps) for member in members)
    return (_StampedUnion if stamped else SinkUnion)(members)


def _joined(*names: str) -> str:
    return ".".join(filter(None, names))


class _UnionCommitter(Committer[Owned, Owned]):
    """Each call goes to those members whose committables it is about, in their order."""

    def __init__(self, committers: Mapping[str, Committer[Any, Any]]) -> None:
        self._committers = committers
        #: What could not be published.
        self._lost: list[Owned] = []

    def _outcomes(
        self,
        of: Sequence[Owned],
        ask: Callable[[Committer[Any, Any], list[Any]], Sequence[ResultT]],
        *,
        asks_all: bool = False,
    ) -> list[ResultT]:
        """Returns one outcome for each of ``of``, in its order."""
        outcomes: dict[int, ResultT] = {}
        for name, committer in self._committers.items():
            places = [place for place, one in enumerate(of) if one.member == name]
            if places or asks_all:
                answers = ask(committer, [of[place].value for place in places])
                outcomes.update(zip(places, answers, strict=True))
        return [outcomes[place] for place in range(len(of))]

    def look(self, committables: Sequence[Owned]) -> list[Found]:
        """A member of which nothing is committed may call lost what only ends soon. With something committed in another
        member it is to be published as long as it can be: publishing finds out.
        """
        found = self._outcomes(committables, lambda committer, own: committer.look(own))
        begun = {one.member for one, state in zip(committables, found, strict=True) if state is Found.COMMITTED}
        return [
            Found.OPEN if begun and state is Found.LOST and self._may_be_open(one, begun) else state
            for one, state in zip(committables, found, strict=True)
        ]

    def _may_be_open(self, committable: Owned, begun: Collection[str]) -> bool:
        return committable.member not in begun and committable not in self._lost

    def publish(self, committables: Sequence[Owned]) -> list[Found]:
        """Asks every member if nothing is left to publish: it may have something to say about the batch as a whole."""
        found = self._outcomes(committables, lambda committer, own: committer.publish(own), asks_all=not committables)
        self._lost += [one for one, state in zip(committables, found, strict=True) if state is Found.LOST]
        return found

    def are_there(self, states: Sequence[Owned]) -> list[bool]:
        return self._outcomes(states, lambda committer, own: committer.are_there(own))

    def seal(self, committables: Sequence[Owned]) -> None:
        for name, committer in self._committers.items():
            if own := _of(name, committables):
                committer.seal(own)

    def discard(self, committables: Sequence[Owned], states: Sequence[Owned]) -> None:
        for name, committer in self._committers.items():
            committer.discard(_of(name, committables), _of(name, states))

    def clear(self, kept: Kept[Owned, Owned]) -> int:
        return sum(
            committer.clear(replace(kept, committables=_of(name, kept.committables), states=_of(name, kept.states)))
            for name, committer in self._committers.items()
        )

    def leave(self) -> None:
        for committer in self._committers.values():
            committer.leave()

    def close(self) -> None:
        for committer in self._committers.values():
            committer.close()


class _UnionRoller(StateRoller[Owned, Owned]):
    def __init__(self, members: Mapping[str, Member], context: WriterContext) -> None:
        self._members = members
        self._context = context
        self._rollers: list[StateRoller[Any, Any]] = []

    def roll(self, states: Sequence[Owned], *, finish: bool) -> list[StateReplacement[Owned, Owned]]:
        return [
            replacement
            for member in self._members.values()
            for replacement in self._rolled(member, states, finish=finish)
        ]

    def _rolled(
        self, member: Member, states: Sequence[Owned], *, finish: bool
    ) -> Iterator[StateReplacement[Owned, Owned]]:
        places = [place for place, one in enumerate(states) if one.member == member.name]
        if not places or not isinstance(member.sink, SupportsStateRolling):
            return
        roller = member.sink.create_roller(member.context_of(self._context))
        self._rollers.append(roller)
        for one in roller.roll([states[place].value for place in places], finish=finish):
            yield replace(
                one,
                consumed=[places[index] for index in one.consumed],
                committables=[Owned(member.name, committable) for committable in one.committables],
                states=[Owned(member.name, state) for state in one.states],
            )

    def abort(self) -> None:
        for roller in self._rollers:
            roller.abort()

    def close(self) -> None:
        for roller in self._rollers:
            roller.close()


def _after(member: str, words: str) -> str:
    return f"{member}: {words}" if member else words


def _of(name: str, owned: Iterable[Owned]) -> list[Any]:
    return [one.value for one in owned if one.member == name]
