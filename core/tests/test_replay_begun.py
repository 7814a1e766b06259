"""A replay of dead letters that was stopped, and is called again with another target. Without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock._commit import Link, LinkKind
from penstock.checkpoint import chain_of, home_of
from penstock.errors import BadConfigurationError
from penstock.spark._replay import _Function, _name_of
from penstock.storage import LocalStorage

COLUMNS = ("stage", "connector", "source")
ORDERS, BILLS, REFUSED = ("source", "kafka", "orders"), ("source", "kafka", "bills"), ("sink", "kafka", "x")
ALL = ("source", "kafka", None)


class Condition:
    def __init__(self, holds):
        self.holds = holds

    def __and__(self, other):
        return Condition(lambda row: self.holds(row) and other.holds(row))

    def __or__(self, other):
        return Condition(lambda row: self.holds(row) or other.holds(row))

    def __invert__(self):
        return Condition(lambda row: not self.holds(row))

    def eqNullSafe(self, value):
        return Condition(lambda row: self.holds(row) == value)


class Letters:
    """A DataFrame with the columns of a kind."""

    def __init__(self, rows):
        self.rows = rows

    def select(self, *names):
        assert names == COLUMNS
        return self

    def distinct(self):
        return Letters(sorted(set(self.rows), key=repr))

    def collect(self):
        return self.rows

    def __getitem__(self, name):
        return Condition(lambda row: row[COLUMNS.index(name)])

    def where(self, condition):
        return Letters([row for row in self.rows if condition.holds(row)])


def unsent(checkpoint, to, decided, batch=3, pending=None):
    """What is left of a batch of which the kinds ``decided`` were sent as batch 3."""
    for kind in decided:
        home = home_of(str(checkpoint), _name_of(kind))
        assert chain_of(LocalStorage(), home).create(Link(0, LinkKind.BATCH, base=0, id="x", batch=3, pending=pending))
        (checkpoint / home / "penstock/sink.json").touch()
    function = _Function(str(checkpoint), SimpleNamespace(name="kafka"), None, None, {}, to)
    return function.unsent(Letters([ORDERS, BILLS, REFUSED, ORDERS]), batch).rows


@pytest.mark.parametrize(
    ("to", "decided", "left"),
    [
        (None, [], [ORDERS, BILLS, REFUSED, ORDERS]),
        ("elsewhere", [ORDERS], [BILLS, REFUSED]),
        ("elsewhere", [ORDERS, BILLS, REFUSED], [REFUSED]),  # skipped by its own decision
        (None, [ALL], [REFUSED]),
        (None, [ORDERS], [ORDERS, BILLS, REFUSED, ORDERS]),  # the same
        ("elsewhere", [ALL], [ORDERS, BILLS, REFUSED, ORDERS]),
    ],
)
def test_letters_that_were_sent_are_not_sent_to_another_target(tmp_path, to, decided, left):
    assert unsent(tmp_path, to, decided) == left


def test_letters_that_were_to_be_sent_are_not_sent_to_another_target_as_well(tmp_path):
    with pytest.raises(BadConfigurationError, match=r"without --to, was stopped .*finish --take-over"):
        unsent(tmp_path, "elsewhere", [ORDERS], pending=0)
    assert len(unsent(tmp_path, None, [], pending=0)) == 4, "their own decision is carried out"


def test_later_letters_go_where_they_are_to(tmp_path):
    assert len(unsent(tmp_path, "elsewhere", [ORDERS], batch=4)) == 4
