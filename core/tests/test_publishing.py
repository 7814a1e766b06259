"""Look, then publish: by itself, for every answer that a target may give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock._commit import Chain, DisplacedError, Link, LinkKind, Publishing
from penstock.errors import DataLostError, FatalError, RetriableError
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.sink import Found, SinkContext
from suite.scripted_sink import ScriptedSink, ScriptedStorage, copied, output

NAMES = list("abcdefgh")
LINK = Link(1000, LinkKind.BATCH, 1000, batch=500, run="m run", outputs=(output(committables=NAMES),), pending=1000)


class Published:
    def __init__(self):
        self.sink, self.storage, self.retry = ScriptedSink(), ScriptedStorage(), NO_RETRIES
        self.chain.create(LINK)

    @property
    def chain(self):
        return Chain(self.storage, "/log")

    @property
    def publishing(self):
        return Publishing(self.sink, SinkContext("q", None, retry=self.retry), self.chain)

    def carry_out(self, owner=1000, link=LINK):
        return self.publishing.carry_out(copied(link), owner=copied(owner))

    def claim(self, **changes):
        self.chain.create(replace(LINK, **{"number": 1001, "base": 1001, "kind": LinkKind.CLAIM, **changes}))

    @property
    def is_done(self):
        return f"/log/{1000:020d}.done" in self.storage.files

    @property
    def asked(self):
        return [(name, *arguments) for name, *arguments in self.sink.asked if name != "committer"]


@pytest.fixture
def made():
    return Published()


def found(committed=(), lost=()):
    return {**dict.fromkeys(committed, Found.COMMITTED), **dict.fromkeys(lost, Found.LOST)}


def test_what_is_open_is_published(made):
    made.sink.found = found(committed="bdfgh")
    assert made.carry_out() and made.is_done
    assert made.asked == [("look", NAMES), ("publish", ["a", "c", "e"]), ("close",)]


def test_nothing_left_is_said_to_the_target_too(made):
    made.sink.found = found(committed=NAMES)
    assert made.carry_out() and made.is_done
    assert made.asked == [("look", NAMES), ("publish", []), ("close",)]


@pytest.mark.parametrize(
    ("names", "published"),
    [("", [[]]), ("a", [["a"]]), ("ab", [["a"], ["b"]]), ("abc", [["a"], ["b", "c"]])],
)
def test_the_first_goes_by_itself_if_there_are_others(made, names, published):
    assert made.carry_out(link=replace(LINK, outputs=(output(committables=list(names)),))) and made.is_done
    assert made.asked == [("look", list(names)), *(("publish", one) for one in published), ("close",)]


@pytest.mark.parametrize("owner", [1000, None])
def test_what_is_lost_while_it_is_published_is_looked_at_again(made, owner):
    def lose():
        del made.sink.on["publish"]
        made.sink.found["e"] = Found.LOST

    made.sink.on["publish"] = lose
    if owner is None:
        assert not made.carry_out(owner)
    else:
        with pytest.raises(DataLostError, match=r"batch 500: 'e' can't be published any more, while other parts"):
            made.carry_out(owner)
    assert not made.is_done
    assert made.asked == [("look", NAMES), ("publish", ["a"]), ("publish", NAMES[1:]), ("look", NAMES), ("close",)]


@pytest.mark.parametrize("name", ["a", "e"])
def test_what_is_open_after_publishing_is_not_done(made, name):
    """As where a directory was away when the part was to be published, and is back when it is looked at."""
    made.sink.found = {name: Found.OPEN}
    with pytest.raises(RetriableError, match=f"'{name}' could not be published"):
        made.carry_out()
    with pytest.raises(RetriableError, match=f"'{name}' could not be published"):
        made.publishing.publish_what_is_left(copied(LINK), 1000)
    assert not made.is_done
    made.sink.found = {}
    assert made.carry_out() and made.is_done


def test_what_is_lost_as_a_whole_is_sealed(made):
    made.sink.found = found(lost="ab")
    assert not made.carry_out() and not made.is_done
    first, others = ("seal", ["a"]), ("seal", NAMES[1:])
    assert made.asked == [("look", NAMES), first, ("look", ["a"]), others, ("look", NAMES), ("close",)]


def test_what_another_process_publishes_first_is_not_given_up(made):
    """It has slept between looking and publishing, and this one between looking and sealing."""
    made.sink.found = found(lost="ab")  # as long as nothing is committed: they will not last

    def another_publishes():
        made.sink.found = found(committed="a")

    made.sink.on["seal"] = another_publishes
    assert made.carry_out() and made.is_done
    looks = [("look", NAMES), ("seal", ["a"]), ("look", ["a"]), ("look", NAMES)]
    assert made.asked == [*looks, ("publish", NAMES[1:]), ("close",)]


def test_what_another_process_has_given_up_is_not_published(made):
    def another_seals():
        made.sink.found = found(lost=NAMES)

    made.sink.on["publish"] = another_seals
    assert not made.carry_out()
    looks = [("look", NAMES), ("publish", ["a"]), ("look", NAMES)]
    assert made.asked == [*looks, ("seal", ["a"]), ("look", ["a"]), ("seal", NAMES[1:]), ("look", NAMES), ("close",)]


def test_where_only_the_owner_publishes_all_is_published_at_once(made, monkeypatch):
    monkeypatch.setattr("suite.scripted_sink._Committer.first_decides", False)
    assert made.carry_out()
    made.sink.found = found(lost="b")
    assert not made.carry_out()
    sealed = [("seal", NAMES), ("look", NAMES), ("close",)]
    assert made.asked == [("look", NAMES), ("publish", NAMES), ("close",), ("look", NAMES), *sealed]


def test_what_others_have_published_before_it_was_sealed_is_told(made):
    made.sink.found = found(lost="ab")
    made.sink.on["seal"] = lambda: made.sink.found.update(found(committed="c"))
    with pytest.raises(DataLostError, match="'a', 'b' can't be published"):
        made.carry_out()
    assert not made.is_done


def test_what_is_lost_is_named_up_to_three(made):
    made.sink.found = found(committed="e", lost="abcd")
    with pytest.raises(DataLostError, match=r"'a', 'b', 'c' and 1 more can't"):
        made.carry_out()
    made.sink.found = found(committed="h", lost="abcdef")
    with pytest.raises(DataLostError, match=r"'a', 'b', 'c' and 3 more can't"):
        made.carry_out()
    assert ("seal", NAMES) not in made.asked
    made.sink.found = found(committed="de", lost="abc")
    with pytest.raises(DataLostError, match=r"'a', 'b', 'c' can't"):
        made.carry_out()


def test_a_roll_is_not_given_up_by_those_who_only_help(made):
    made.sink.found = found(lost="ab")
    assert not made.carry_out(owner=None)
    assert made.asked == [("look", NAMES), ("close",)]


@pytest.mark.parametrize(
    "happens",
    [
        lambda made: made.chain.mark_done(1000),
        lambda made: made.claim(pending=None),
        lambda made: made.claim(pending=1001),
        lambda made: made.claim(pending=999),
        lambda made: made.claim(),  # the duty is another's
        lambda made: made.claim(base=999),
        lambda made: made.claim(base=1000, pending=None),
    ],
)
def test_what_another_run_has_to_do_with_is_not_called_lost(made, happens):
    made.sink.found = found(committed="a", lost="b")
    made.sink.on["look"] = lambda: happens(made)
    with pytest.raises(DisplacedError):
        made.carry_out()


def test_what_was_done_and_read_meanwhile_is_not_called_lost(made):
    made.claim(pending=1000, base=1000)
    made.sink.found = found(committed="a", lost="b")
    made.sink.on["look"] = lambda: made.chain.mark_done(1000)
    with pytest.raises(DisplacedError):
        made.carry_out()


@pytest.mark.parametrize(
    ("happens", "owner", "is_owner"),
    [
        (None, 1000, True),
        (None, None, True),
        ({"pending": 1000}, 1000, False),
        ({"pending": 1000}, 1001, True),
        ({"pending": 1000}, None, True),
        ({"pending": 1001}, 1001, False),
        ({"pending": 999}, 1001, False),
        ({"pending": None}, None, False),
        ({"pending": 1000, "base": 999}, 1000, False),
    ],
)
def test_a_target_may_ask_who_the_owner_is(made, happens, owner, is_owner):
    if happens is not None:
        made.claim(**happens)
    if is_owner:
        assert made.carry_out(owner)
    else:
        with pytest.raises(DisplacedError, match="link 1001 of run m run"):
            made.carry_out(owner)
    assert made.is_done == is_owner


def test_a_committer_is_closed_whatever_happens(made):
    made.sink.on["look"] = lambda: (_ for _ in ()).throw(RetriableError("away"))
    with pytest.raises(RetriableError):
        made.carry_out()
    made.sink.on = {"seal": made.sink.on["look"]}
    with pytest.raises(RetriableError):
        made.publishing.seal(LINK)
    assert made.sink.asked.count(("close",)) == made.sink.asked.count(("committer",)) == 2


@pytest.mark.parametrize("lost", ["", "a"])
def test_a_committer_answers_for_each(made, lost):
    made.sink.forgets_the_last, made.sink.found = True, found(lost=lost)
    with pytest.raises(ValueError, match="shorter"):
        made.carry_out()
    assert not made.is_done


def test_a_committer_answers_for_each_that_it_publishes(made):
    made.sink.on["publish"] = lambda: setattr(made.sink, "forgets_the_last", True)
    with pytest.raises(ValueError, match="shorter"):
        made.carry_out()
    assert not made.is_done


def test_sealing_marks_nothing(made):
    made.publishing.seal(LINK)
    assert made.asked == [("seal", NAMES), ("close",)] and not made.is_done


def test_what_is_left_is_published_one_by_one(made):
    def refuse():
        if made.sink.asked[-1] == ("publish", ["b"]):
            raise FatalError("what became of it?")

    made.sink.on["publish"] = refuse
    made.publishing.publish_what_is_left(LINK, 1000)
    asked = [(what, [name]) for name in NAMES for what in ("look", "publish")]
    assert made.asked == [*asked, ("close",)] and made.is_done


def test_what_is_published_already_is_not_left(made):
    made.sink.found = found(committed="ac")
    made.publishing.publish_what_is_left(LINK, 1000)
    assert [names for what, *names in made.asked if what == "publish"] == [[[name]] for name in "bdefgh"]


def test_what_may_pass_does_not_mark_a_link(made):
    made.sink.on["publish"] = lambda: (_ for _ in ()).throw(RetriableError("away"))
    with pytest.raises(RetriableError):
        made.publishing.publish_what_is_left(LINK, 1000)
    assert not made.is_done


def test_a_failure_that_may_pass_leads_back_to_the_look(made):
    """The others were published before the answer was lost, so nothing is published a second time."""
    made.retry = RetryPolicy(60)
    calls = []

    def lose_the_second_answer():
        calls.append(1)
        if len(calls) == 2:
            made.sink.found.update(dict.fromkeys(NAMES, Found.COMMITTED))
            raise RetriableError("the answer was lost")

    made.sink.on["publish"] = lose_the_second_answer
    assert made.carry_out() and made.is_done
    assert [asked for asked in made.asked if asked[0] != "close"] == [
        ("look", NAMES),
        ("publish", NAMES[:1]),
        ("publish", NAMES[1:]),
        ("look", NAMES),
        ("publish", []),
    ]
