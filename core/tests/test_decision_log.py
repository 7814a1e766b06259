"""The decision log by itself: how links are named, found, created once, and deleted."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from penstock._commit import BEFORE_ALL, Chain, Head, Link, LinkKind, TaskOutput, committables_of, now_ms
from penstock.errors import BadDataError, FatalError
from penstock.retry import RetryPolicy
from penstock.storage import MemoryStorage
from suite.scripted_sink import TEXT, ScriptedStorage, copied, item, output, scripted_system

DIRECTORY = "/ck/penstock/decisions"
LINK = Link(1000, LinkKind.BATCH, 1000, id="m link")


@pytest.fixture
def storage():
    return ScriptedStorage()


@pytest.fixture
def chain(storage):
    return Chain(storage, DIRECTORY)


def path(number, suffix="json"):
    return f"{DIRECTORY}/{number:020d}.{suffix}"


def numbers(storage, suffix=".json"):
    return sorted(int(name[-25:-5]) for name in storage.files if name.endswith(suffix))


def test_an_empty_log(chain, storage):
    assert chain.head() == Head(BEFORE_ALL) and chain.links() == [] and chain.read(-1) is BEFORE_ALL
    assert chain.head().pending is None and ("read", path(-1)) not in storage.asked
    assert (BEFORE_ALL.number, BEFORE_ALL.base, BEFORE_ALL.batch, BEFORE_ALL.generation) == (-1, -1, -1, -1)
    assert (BEFORE_ALL.sequence, BEFORE_ALL.writers, BEFORE_ALL.floor_us, BEFORE_ALL.ceiling_us) == (0, 1, 0, 0)


def test_names_that_are_no_links_are_left_alone(chain, storage):
    chain.create(LINK)
    foreign = [
        "x.json",
        ".00000000000000002000.json.0123.tmp",
        "3000.jsonx",
        "5000.jso",
        "12345x.json",
        "700x.json",
        "²000.json",
        "٣000.json",
    ]
    for name in (*foreign, "4000.done", "y.done", "12345x.done", "800x.done", "²000.done"):
        storage.files[f"{DIRECTORY}/{name}"] = b""
    assert chain.head() == Head(LINK, frozenset({4000})) and chain.links() == [LINK]


def test_the_head_is_read_once(storage):
    Chain(storage, DIRECTORY).create(LINK)
    chain = Chain(storage, DIRECTORY)
    storage.asked.clear()
    assert chain.head().link == chain.head().link == chain.read(1000) == LINK
    assert storage.asked == [("list", DIRECTORY), ("read", path(1000)), ("list", DIRECTORY)]
    chain.forget()
    assert chain.head().link == LINK and storage.asked.count(("read", path(1000))) == 2


def test_what_was_created_is_not_read(chain, storage):
    chain.create(LINK)
    assert chain.read(1000) is LINK and [what for what, *_ in storage.asked] == ["create"]
    chain.create(replace(LINK, number=999))
    assert chain.read(1000) == LINK and storage.asked[-1] == ("read", path(1000))


def test_links_come_oldest_first(chain):
    links = [replace(LINK, number=number) for number in (999, 1000, 1001)]
    for link in reversed(links):
        chain.create(link)
    assert chain.links() == links


@pytest.mark.parametrize("name", ["a link", "z link"])
def test_a_number_that_is_taken_is_lost(chain, storage, name):
    storage.files[path(1000)] = replace(LINK, id=name).to_bytes()
    assert not chain.create(LINK)
    assert chain.read(1000).id == name, "what it has is not remembered"


def test_a_number_that_was_taken_by_the_same_call_is_ours(chain, storage):
    storage.files[path(1000)] = LINK.to_bytes()
    assert chain.create(copied(LINK))
    storage.asked.clear()
    assert chain.read(1000) == LINK and storage.asked == []


def test_a_number_that_is_lost_says_nothing_of_others(chain, storage):
    chain.create(replace(LINK, number=999))
    storage.files[path(1000)] = replace(LINK, id="z link").to_bytes()
    storage.files[path(999)] = replace(LINK, number=999, id="another").to_bytes()
    assert not chain.create(LINK) and chain.read(999).id == "another"


@pytest.mark.parametrize(("above", "in_order"), [(0, True), (1, True), (31, True), (32, False), (33, False)])
def test_a_number_that_was_used_long_ago_is_no_part_of_the_chain(chain, storage, above, in_order):
    chain.create(replace(LINK, number=1000 + above))
    chain.create(LINK)
    assert chain.is_in_order(1000) is in_order
    assert (path(1000) in storage.files) is in_order and path(1000 + above) in storage.files
    if not in_order:
        with pytest.raises(FileNotFoundError):
            chain.read(1000)


def test_a_number_in_an_empty_log_is_in_order(chain):
    assert chain.is_in_order(1000)


@pytest.mark.parametrize("durable", [True, False])
def test_a_mark(chain, storage, durable):
    chain.create(replace(LINK, pending=1000))
    assert chain.head().pending == 1000
    chain.mark_done(1000, durable=durable)
    assert storage.asked[-1] == ("put", path(1000, "done"), durable) and storage.files[path(1000, "done")] == b""
    assert chain.head().pending is None


def test_a_mark_need_not_be_on_the_disk(chain, storage):
    chain.mark_done(7)
    assert storage.asked == [("put", path(7, "done"), False)]


@pytest.mark.parametrize(
    ("head", "done", "kept_from"),
    [
        ({"base": 1008}, (), 976),
        ({"base": 990}, (), 958),
        ({"base": 1008, "pending": 980}, (), 948),
        ({"base": 1008, "pending": 980}, (980,), 976),
        ({"base": 990, "pending": 1008}, (), 958),
    ],
)
def test_links_are_deleted_once_nobody_asks_for_them(chain, storage, head, done, kept_from):
    for number in range(940, 1009):
        chain.create(replace(LINK, number=number))
        chain.mark_done(number)
    chain.shorten(Head(replace(LINK, number=1008, **head), frozenset(done)))
    assert numbers(storage) == numbers(storage, ".done") == list(range(kept_from, 1009))


@pytest.mark.parametrize("number", [1007, 1008, 1009, 1001, 1023, 1024])
def test_links_are_deleted_at_every_sixteenth(chain, storage, number):
    chain.create(replace(LINK, number=900))
    storage.asked.clear()
    chain.shorten(Head(replace(LINK, number=number, base=number)))
    assert [what for what, *_ in storage.asked] == (["list", "delete"] if number in (1008, 1024) else [])


# --- the log of a batch write, which is deleted -----------------------------------------------------------------------


def test_a_log_is_deleted_oldest_link_first_and_marks_last(chain, storage, monkeypatch):
    monkeypatch.setattr(storage, "remove_empty", lambda directory: storage.asked.append(("remove", directory)))
    for number in (0, 1, 2):
        chain.create(replace(LINK, number=number, id=f"link {number}"))
    chain.mark_done(2)
    chain.mark_done(1)
    storage.asked.clear()
    chain.delete()
    deleted = [one for call in storage.asked if call[0] == "delete" for one in call[1]]
    assert deleted == [path(0), path(1), path(2), path(1, "done"), path(2, "done")]
    assert storage.files == {} and storage.asked[-1] == ("remove", DIRECTORY)


@pytest.mark.parametrize(
    ("gone", "is_done", "stands"),
    [([], False, True), ([0], False, False), ([0], True, True), ([0, 1], True, True), ([0, 1], False, True)],
)
def test_a_link_without_its_base_stands_if_it_was_carried_out(chain, storage, gone, is_done, stands):
    """Else it was created where a log had been, and nothing of it stays, in this object neither."""
    for number in (0, 1):
        chain.create(replace(LINK, number=number, id=f"link {number}"))
    if is_done:
        chain.mark_done(1)
    for number in gone:
        del storage.files[path(number)]
    assert chain.has_not_ended_before(1, 0) is stands
    assert (path(1) in storage.files) is (stands and 1 not in gone)
    if not stands:
        with pytest.raises(FileNotFoundError):
            chain.read(1)


def test_state_after_outputs():
    before = replace(LINK, states=(item("one"), item("two")))
    outputs = iter([output(states=["three"], consumed=["one"]), output(states=["four"], consumed=["gone"])])
    assert before.state_after(outputs) == (item("two"), item("three"), item("four"))


def test_committables_come_in_order():
    packed = [TEXT.pack(name) for name in "abc"]
    assert committables_of([output(committables="ab"), output(), output(committables="c")]) == packed


def test_links_are_values():
    with pytest.raises(FrozenInstanceError):
        LINK.number = 7
    with pytest.raises(FrozenInstanceError):
        Head(LINK).link = LINK
    assert (
        TaskOutput(0, "attempt 0") == output() and LINK.time_ms == 0 and LINK.pending is None and LINK.generation == -1
    )
    assert len({item("x"), copied(item("x"))}) == 1 and len({output(1), copied(output(1))}) == 1
    assert Head(LINK) == copied(Head(LINK))


def test_the_stored_form_is_compact_and_says_its_format():
    stored = replace(LINK, offsets=b"v1" * 99).to_bytes()
    assert json.loads(stored)["format"] == 3 and b", " not in stored and b": " not in stored
    assert Link.from_bytes(stored, done=True, where="x").offsets == b"v1" * 99
    assert json.loads(LINK.to_bytes())["offsets"] == ""


@pytest.mark.parametrize("format_", [4, 99])
def test_a_newer_format_is_refused_by_its_place(chain, storage, format_):
    storage.files[path(7)] = json.dumps({**json.loads(LINK.to_bytes()), "format": format_}).encode()
    with pytest.raises(FatalError, match=f"memory:{path(7)}: written by a newer penstock"):
        chain.head()


FIRST_EDITION = {
    "format": 1,
    "number": 1000,
    "kind": "batch",
    "driver": "m run",
    "last_batch": 7,
    "time_ms": 5,
    "outputs": [output(committables=["a"]).to_json()],
    "states": [item("one").to_json()],
    "sequence": 9,
    "writers": 2,
    "redo": [],
    "metrics": {"rows": 1},
}


@pytest.mark.parametrize("kind", ["batch", "claim", "a later one", "roll"])
@pytest.mark.parametrize("stamp", [None, 77])
def test_the_first_edition(chain, storage, kind, stamp):
    value = {**FIRST_EDITION, "kind": kind} | ({} if stamp is None else {"write_timestamp_us": stamp})
    storage.files[path(1000)] = json.dumps(value).encode()
    stamp = stamp or 0
    assert chain.head() == Head(
        Link(
            number=1000,
            kind=LinkKind.BATCH if kind == "batch" else LinkKind.CLAIM,
            base=1000,
            id="m run-1000",
            run="m run",
            time_ms=5,
            batch=7,
            states=(item("one"),),
            outputs=(output(committables=["a"]),),
            pending=1000,
            sequence=9,
            writers=2,
            floor_us=stamp,
            ceiling_us=stamp + 1_000_000,
            metrics={"rows": 1},
        )
    )


def test_the_first_edition_knows_by_its_mark_what_is_done(chain, storage):
    storage.files[path(1000)] = json.dumps(FIRST_EDITION).encode()
    chain.mark_done(1000)
    assert chain.head().link.pending is None and chain.links()[0].pending is None
    empty = {**FIRST_EDITION, "outputs": [output(states=["x"]).to_json()]}
    assert Link.from_bytes(json.dumps(empty).encode(), done=False, where="x").pending is None


def test_the_time_of_a_link_is_in_milliseconds():
    with scripted_system() as system:
        assert now_ms() == system.us // 1000 and isinstance(now_ms(), int)


@pytest.mark.parametrize("has_landed", [False, True])
def test_a_link_whose_creation_failed_is_created_again_and_known_by_its_id(has_landed):
    storage = ScriptedStorage()
    chain = Chain(storage.retrying(RetryPolicy(60)), DIRECTORY)

    def fail():
        if has_landed:
            MemoryStorage.create(storage, chain._path(LINK.number), LINK.to_bytes())
        raise ConnectionResetError("the store is away")

    storage.before["create"] = [fail]
    assert chain.create(LINK) and chain.head().link == LINK
    other = Chain(storage, DIRECTORY)
    assert not other.create(replace(LINK, id="another one"))


@pytest.mark.parametrize("call", ["list", "read", "put"])
def test_a_call_of_the_store_that_fails_is_made_again(call):
    def fail():
        raise ConnectionResetError("the store is away")

    storage = ScriptedStorage()
    Chain(storage, DIRECTORY).create(LINK)
    chain = Chain(storage.retrying(RetryPolicy(60)), DIRECTORY)
    storage.before[call] = [fail]
    chain.mark_done(LINK.number)
    assert chain.head().link == LINK and chain.head().done == {LINK.number}
    assert not storage.before[call]


@pytest.mark.parametrize(
    "damage",
    [
        {"number": None},
        {"number": 999},
        {"base": "x"},
        {"time_ms": "x"},
        {"batch": [1]},
        {"batch": -2},
        {"batch": True},
        {"pending": "x"},
        {"pending": -1},
        {"pending": 10**30},
        {"id": 5},
        {"targets": None},
        {"targets": {"": 5}},
        {"metrics": []},
        {"metrics": {"rows_written": "x"}},
    ],
)
def test_a_link_with_what_no_link_holds_is_named_and_not_followed(chain, storage, damage):
    stored = json.loads(LINK.to_bytes())
    storage.files[path(1000)] = json.dumps({**stored, **damage}).encode()
    with pytest.raises(BadDataError, match=r"1000\.json, a link of the decision log, is damaged"):
        chain.head()
