"""What ``badRecords`` means, whatever the connector."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.source import BadRecordPolicy, ConstantColumns

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


@pytest.mark.parametrize("choice", ["null", "drop"])
def test_others_are_counted(choice):
    lenient = policy(choice)
    lenient.check(REASONS, lambda row: pytest.fail("no error, no place"))
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
