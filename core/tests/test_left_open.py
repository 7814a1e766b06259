"""What a query leaves open, in the words of every command."""

from __future__ import annotations

import pytest

from penstock._commit import Link, LinkKind, StateItem
from penstock.checkpoint import LeftOpen, chain_of, home_of, left_open
from penstock.serialization import Versioned
from penstock.spark._listener import _say_what_is_left
from penstock.storage import open_storage


@pytest.mark.parametrize(
    ("pending", "pieces", "words"),
    [
        (0, 0, ""),
        (
            0,
            1,
            "1 open piece holds committed rows that no reader sees yet: restart the query, or run: penstock finish ck",
        ),
        (
            0,
            1200,
            "1,200 open pieces hold committed rows that no reader sees yet: restart the query, or run: "
            "penstock finish ck",
        ),
        (
            1,
            0,
            "1 decision is pending: committed rows that no reader sees yet: restart the query, or run: "
            "penstock finish --take-over ck",
        ),
        (
            2,
            3,
            "2 decisions are pending and 3 open pieces hold committed rows that no reader sees yet: restart the query, "
            "or run: penstock finish --take-over ck",
        ),
    ],
)
def test_words(pending, pieces, words):
    left = LeftOpen("ck", pending, pieces)
    assert str(left) == words and bool(left) == bool(words)


def test_the_command_can_be_pasted():
    assert LeftOpen("/my data/ck", 0, 1).command == "penstock finish '/my data/ck'"


def link(number, **what):
    return Link(number, LinkKind.BATCH, number, id=str(number), batch=number, **what)


def test_all_sinks_of_a_checkpoint_count(tmp_path):
    storage, path = open_storage(str(tmp_path))
    piece = StateItem("p", Versioned(1, b"{}"))
    assert not left_open(str(tmp_path))
    assert chain_of(storage, path).create(link(0, states=(piece,)))
    for name, pending in (("a", 0), ("b", None)):
        (tmp_path / f"penstock/sinks/{name}/penstock").mkdir(parents=True)
        (tmp_path / f"penstock/sinks/{name}/penstock/sink.json").write_text("{}")
        assert chain_of(storage, home_of(path, name)).create(link(0, states=(piece, piece), pending=pending))
    assert left_open(str(tmp_path)) == LeftOpen(str(tmp_path), 1, 5)
    assert left_open(str(tmp_path), logs=("b",)) == LeftOpen(str(tmp_path), 0, 2)
    chain_of(storage, home_of(path, "a")).mark_done(0)
    assert left_open(str(tmp_path)) == LeftOpen(str(tmp_path), 0, 5)


def test_the_log_of_a_query_says_it_in_the_same_words(tmp_path, caplog):
    storage, path = open_storage(str(tmp_path))
    _say_what_is_left(str(tmp_path))
    _say_what_is_left("s3:no-address")
    assert caplog.messages == []
    assert chain_of(storage, path).create(link(0, states=(StateItem("p", Versioned(1, b"{}")),)))
    _say_what_is_left(str(tmp_path))
    assert caplog.messages == [f"a query has ended: {LeftOpen(str(tmp_path), 0, 1)}"]
