"""What ``badRecords`` means, whatever the connector."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.source import BadRecordPolicy, ConstantColumns, _bad_records

REASONS = pa.array([None, "not JSON", None, "cut off"])


def policy(choice):
    return BadRecordPolicy(choice, ("null", "drop"), Metrics())


def test_the_first_bad_record_fails_the_query():
    failing = policy("fail")
    with pytest.raises(BadDataError) as error:
        failing.check(REASONS, lambda row: f"offset {row}")
    assert str(error.value) == (
        "offset 1: not JSON, and 1 more in this batch; to continue without it, set badRecords to null or drop"
    )
    with pytest.raises(BadDataError, match=r"^offset 7: cut off; to continue"):
        failing.keeps("offset 7", "cut off")
    assert failing.metrics.snapshot() == {"bad_rows": 3}


@pytest.fixture
def notices(monkeypatch, caplog):
    """Times at which the next records come; what the log says of them."""
    monkeypatch.setattr(_bad_records, "_notices", _bad_records._Notices())
    caplog.set_level(logging.WARNING, "penstock.source")
    return lambda: [record.getMessage() for record in caplog.records]


def test_bad_records_that_are_not_an_error_are_logged_now_and_then(notices, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_bad_records, "system", lambda: type("System", (), {"monotonic": lambda: now[0]}))
    policy("null").check(REASONS, lambda row: f"offset {row}")
    policy("drop").keeps("offset 7", "a second later")
    now[0] += 10
    policy("drop").keeps("offset 8", "cut off")
    assert notices() == [
        "offset 1: not JSON; it becomes null (badRecords=null); bad records since the last such line: 2",
        "offset 8: cut off; it is left out (badRecords=drop); bad records since the last such line: 2",
    ]


def test_dead_letters_are_not_logged(notices):
    policy("deadLetter").check(REASONS, lambda row: pytest.fail("no line, no place"))
    assert notices() == []


@pytest.mark.parametrize("choice", ["null", "drop"])
def test_others_are_counted(choice):
    lenient = policy(choice)
    lenient.check(REASONS, lambda row: f"offset {row}")
    assert lenient.keeps("offset 7", "cut off") is (choice == "null")
    assert lenient.metrics.snapshot() == {"bad_rows": 3}


@pytest.mark.parametrize("reasons", [None, pa.nulls(3, pa.string()), pa.array([], pa.string())])
def test_nothing_is_bad(reasons):
    failing = policy("fail")
    failing.check(reasons, lambda row: pytest.fail("nothing is bad"))
    assert failing.metrics.snapshot() == {}


def test_constant_columns_follow_value_and_length():
    columns = ConstantColumns()
    assert columns.column("a", "x", pa.string(), 2).to_pylist() == ["x", "x"]
    assert columns.column("a", "x", pa.string(), 3).to_pylist() == ["x"] * 3
    assert columns.column("a", "y", pa.string(), 1).to_pylist() == ["y"]
    assert columns.column("b", 1, pa.int32(), 0).equals(pa.array([], pa.int32()))
    assert columns.column("a", "x", pa.string(), 1).to_pylist() == ["x"]
