"""Rows that are changes of a table: what their columns may say, and what is refused by name."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import OptionSet, common_option
from penstock.sink import ChangeColumns

CHANGES = ChangeColumns(("id",), "op", "lsn", "unavailable")
SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("id", pa.int64()),
        ("note", pa.string()),
        ("lsn", pa.int64()),
        ("unavailable", pa.list_(pa.string())),
        ("tags", pa.list_(pa.string())),
    ]
)


def batch(*rows):
    names = ("op", "id", "note", "lsn", "unavailable")
    return pa.RecordBatch.from_pylist([dict(zip(names, row, strict=False)) for row in rows], SCHEMA)


def test_options_say_which_columns():
    names = ("keyColumns", "operationColumn", "orderColumn", "unavailableColumn")
    declared = OptionSet([common_option(name) for name in names])
    values = declared.parse({"keyColumns": "id, day", "operationColumn": "op"}, owner="it")
    assert ChangeColumns.from_values(values) == ChangeColumns(("id", "day"), "op")
    assert ChangeColumns.from_values(OptionSet().parse({}, owner="it")) == ChangeColumns()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (ChangeColumns(("di",)), "option 'keyColumns': the rows have no column 'di'; did you mean 'id'"),
        (ChangeColumns(operation="what"), "option 'operationColumn': the rows have no column 'what'"),
        (ChangeColumns(("id", "id")), "option 'keyColumns' names the column 'id' twice"),
        (ChangeColumns(("op",), "op"), "option 'operationColumn' names the column 'op', and 'keyColumns' names it too"),
        (ChangeColumns(operation="id"), "column 'id' is of type bigint: it must be string"),
        (ChangeColumns(unavailable="note"), r"column 'note' is of type string: it must be array<string>"),
        (ChangeColumns(("tags",)), "option 'keyColumns': column 'tags' is of type array<.*>: not comparable"),
        (ChangeColumns(order="tags"), "option 'orderColumn': column 'tags' is of type array<.*>: not comparable"),
    ],
)
def test_columns_that_can_not_be(changes, message):
    with pytest.raises(BadConfigurationError, match=message):
        changes.check_schema(SCHEMA)


def test_which_rows_are_deleted():
    CHANGES.check_schema(SCHEMA)
    changes = pickle.loads(pickle.dumps(CHANGES))
    rows = batch(("c", 1, "a", 1), ("d", 1, None, 2), ("r", 2, "b", 3), ("u", 2, "c", 4))
    changes.check_rows(rows)
    assert changes.deletes(rows).to_pylist() == [False, True, False, False]
    assert changes.deletes(rows.slice(1, 1)).to_pylist() == [True]
    assert changes.deletes(rows.slice(0, 0)).to_pylist() == []
    assert ChangeColumns(("id",)).deletes(rows) is None


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("t", "column 'op': 't' says that the table was truncated"),
        ("m", "column 'op': 'm' is a message"),
        (None, "column 'op': null is no operation: leave out tombstones"),
        ("D", "column 'op': 'D' is none of c, u, r"),
        ("", "column 'op': '' is none of"),
        ("insert" * 20, "column 'op': '(insert){8}in…' is none of"),
    ],
)
def test_other_operations_are_never_taken_as_rows(operation, message):
    with pytest.raises(BadDataError, match=message) as raised:
        CHANGES.check_rows(batch(("c", 1, "a", 1), (operation, 7, "b", 2)))
    assert "'id': 7" in str(raised.value)


@pytest.mark.parametrize(
    ("row", "message"), [(("c", None, "a", 1), "key column 'id'"), (("d", 1, None), "order column")]
)
def test_keys_and_positions_are_not_null(row, message):
    with pytest.raises(BadDataError, match=f"{message}.* is null in row 1 of a batch"):
        CHANGES.check_rows(batch(("c", 1, "a", 1), row))


def test_values_that_the_database_did_not_send():
    rows = batch(
        ("u", 1, None, 1, ["after.note"]),
        ("u", 2, "b", 2, []),
        ("u", 3, None, 3, ["before.note", "note"]),
        ("d", 4, None, 4, ["before.note", "after.other"]),
        ("c", 5, "e", 5, None),
        ("u", 6, None, 6, ["after.note", "after.tags"]),
    )
    found = {name: mask.to_pylist() for name, mask in CHANGES.unavailable_in(rows).items()}
    assert found == {"note": [True, False, True, False, False, True], "tags": [False] * 5 + [True]}
    assert {n: m.to_pylist() for n, m in CHANGES.unavailable_in(rows.slice(2)).items()}["note"] == [1, 0, 0, 1]
    assert CHANGES.unavailable_in(rows.slice(1, 1)) == {}
    assert ChangeColumns(("id",), "op").unavailable_in(rows) == {}


@pytest.mark.parametrize(("name", "why"), [("after.gone", "is no column of the rows"), ("after.id", "is of the key")])
def test_a_value_that_no_column_lacks(name, why):
    with pytest.raises(BadDataError, match=f"column 'unavailable' names '{name.removeprefix('after.')}', which {why}"):
        CHANGES.unavailable_in(batch(("u", 1, "a", 1, None), ("u", 1, "a", 1, [name])))


@pytest.mark.parametrize("operation", ["c", "r"])
def test_a_new_row_lacks_nothing(operation):
    """As Debezium says a change of the key whose large column stayed as it was: nothing has the value."""
    rows = batch(("u", 1, None, 1, ["after.note"]), (operation, 2, None, 2, ["after.note"]))
    with pytest.raises(BadDataError, match=r"names 'note' of a row that is new: .*replica identity full.*'id': 2"):
        CHANGES.check_rows(rows)
