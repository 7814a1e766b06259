"""Wrappers that put faults around an author's objects can do what those can, and nothing else."""

from __future__ import annotations

import pickle

import pytest

from penstock.sink import SupportsCompleteMode, SupportsStateRolling, SupportsWriteTimestamps
from penstock.source import SupportsExplain, SupportsFilterPushDown, SupportsOffsetAdoption
from penstock.testing import Fuse
from penstock.testing._faults import FaultyPlainSink, FaultySource, faulty_sink, faulty_source, wrapped

ABILITIES = (
    SupportsCompleteMode,
    SupportsStateRolling,
    SupportsWriteTimestamps,
    SupportsExplain,
    SupportsFilterPushDown,
    SupportsOffsetAdoption,
)


class Rolling(SupportsStateRolling):
    state_serializer = "the serializer"

    def create_roller(self, context):
        raise NotImplementedError

    def owner_key(self, state):
        return f"owner of {state}"


class Filtering(SupportsFilterPushDown):
    def push_filters(self, filters):
        return Explaining(), filters[:1]


class Explaining(SupportsExplain):
    def explain(self):
        return ["reads"]


class Adopting(SupportsOffsetAdoption):
    def adopt_offset(self, value):
        return value["at"]

    def splits_between(self, start, end):
        return [start, end]


class Stamped(SupportsCompleteMode, SupportsWriteTimestamps):
    pass


def abilities(made):
    return {ability for ability in ABILITIES if isinstance(made, ability)}


@pytest.mark.parametrize("wrap", [faulty_sink, faulty_source])
@pytest.mark.parametrize("kind", [Rolling, Filtering, Explaining, Adopting, Stamped, object])
def test_a_wrapper_can_do_what_it_wraps(kind, wrap):
    inner = kind()
    made = wrap(inner, Fuse())
    assert abilities(made) == abilities(inner)
    copy = pickle.loads(pickle.dumps(made))
    assert abilities(copy) == abilities(inner) and isinstance(copy, (FaultyPlainSink, FaultySource))


class Stepped(FaultyPlainSink):
    """Another wrapper, as the simulator has one."""


@pytest.mark.parametrize("kind", [Rolling, Stamped, object])
def test_a_copy_is_wrapped_as_the_original_is(kind):
    """Tasks get copies: they are to be watched as the driver is."""
    copy = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(wrapped(Stepped, kind(), Fuse())))))
    assert isinstance(copy, Stepped) and abilities(copy) == abilities(kind())


def test_what_a_wrapper_can_do_is_done_by_what_it_wraps():
    rolling = faulty_sink(Rolling(), Fuse())
    assert (rolling.state_serializer, rolling.owner_key("s")) == ("the serializer", "owner of s")
    assert rolling.describe_state("s") == "'s'"
    source, taken = faulty_source(Filtering(), Fuse()).push_filters(["a", "b"])
    assert taken == ["a"] and abilities(source) == {SupportsExplain} and source.explain() == ["reads"]
    adopting = faulty_source(Adopting(), Fuse())
    assert adopting.adopt_offset({"at": 7}) == 7 and adopting.splits_between(1, 2) == [1, 2]
