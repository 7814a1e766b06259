"""Changes of a table into a compacted topic, a table and change files: each ends as the table that they are changes of.

Sequences of changes are drawn, and so are the batches and tasks they come in, and what a crash does to each batch.
"""

from __future__ import annotations

import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from penstock._plugins import find_connector
from penstock.testing import SinkQuery

SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("id", pa.int64()),
        ("note", pa.string()),
        ("n", pa.int32()),
        ("lsn", pa.int64()),
        ("unavailable", pa.list_(pa.string())),
    ]
)
WHOLE = pa.schema([field for field in SCHEMA if field.name != "unavailable"])
TASKS = 2


class Database:
    """A table, and the changes of it as Debezium says them. ``rows`` is the model that every sink must come to."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str | None, int]] = {}
        self.changes: list[dict[str, Any]] = []
        self._lsn = 0

    def carry_out(self, action: tuple[Any, ...]) -> None:
        """An action that makes no sense for the rows that are there does nothing."""
        name, key, *rest = action
        self._lsn += 1
        if name == "put":
            self._write("u" if key in self.rows else "c", key, *rest)
        elif name == "resend":  # as after a restart of the connector: the last changes come again, in their order
            self.changes += [dict(change) for change in self.changes[-key:]]
        elif key not in self.rows:
            return
        elif name == "number":  # a large text that did not change is not sent
            self._write("u", key, self.rows[key][0], *rest, unavailable=["after.note"])
        elif name == "delete":
            self._delete(key)
        elif name == "read":
            self._write("r", key, *self.rows[key])
        elif name == "rename" and rest[0] not in self.rows:
            row = self.rows[key]
            self._delete(key)
            self._write("c", rest[0], *row)

    def _write(self, op: str, key: int, note: str | None, n: int, unavailable: list[str] | None = None) -> None:
        self.rows[key] = (note, n)
        self.changes.append({"op": op, "id": key, "note": note, "n": n, "lsn": self._lsn, "unavailable": unavailable})

    def _delete(self, key: int) -> None:
        del self.rows[key]
        gone = {"op": "d", "id": key, "note": None, "n": None, "lsn": self._lsn, "unavailable": ["before.note"]}
        self.changes.append(gone)


KEYS, NOTES, NUMBERS = st.integers(0, 3), st.none() | st.text("ab", max_size=2), st.integers(0, 9)
ACTIONS = st.one_of(
    st.tuples(st.just("put"), KEYS, NOTES, NUMBERS),
    st.tuples(st.just("number"), KEYS, NUMBERS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("rename"), KEYS, KEYS),
    st.tuples(st.just("read"), KEYS),
    st.tuples(st.just("resend"), st.integers(1, 4)),
)
#: What becomes of a batch: done; its tasks have run and the driver dies; committed, and the engine does not know it.
FATES = st.sampled_from(["done", "lost", "not noted"])


def sink_query(name: str, schema: pa.Schema, folder: Path, **options: Any) -> SinkQuery:
    connector = find_connector(name).load()
    declared = connector.sink_options
    assert declared is not None
    values = declared.parse({key: str(value) for key, value in options.items()}, owner=name)
    return SinkQuery(connector.create_sink(values, schema), schema, folder / f"ck-{uuid.uuid4().hex}")


def run(query: SinkQuery, batches: list[tuple[list[list[list[dict[str, Any]]]], str]]) -> None:
    """Each batch is a list of tasks, a task is a list of lists of rows, which come together."""
    for number, (tasks, fate) in enumerate(batches):
        shares = [[pa.RecordBatch.from_pylist(rows, query.schema) for rows in task] for task in tasks]
        if fate == "lost":
            query.tasks(number, shares)
            query.restart()
        if fate == "not noted":
            query.run(number, shares)
            query.done.discard(number)
            query.restart()
        query.run(number, shares)
    query.finish()


def cut(data: st.DataObject, rows: list[Any], most: int) -> list[list[Any]]:
    """Cuts a list into at most so many parts, some of them empty."""
    ends = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=most - 1), label="ends of parts"))
    return [rows[first:last] for first, last in itertools.pairwise([0, *ends, len(rows)])]


def by_key(rows: list[dict[str, Any]], data: st.DataObject) -> list[list[list[dict[str, Any]]]]:
    """As a source of several partitions gives them: the changes of a key in one task, in their order."""
    return [cut(data, [row for row in rows if row["id"] % TASKS == task], 2) for task in range(TASKS)]


def anyhow(rows: list[dict[str, Any]], data: st.DataObject) -> list[list[list[dict[str, Any]]]]:
    """Any task, in any order."""
    mixed = data.draw(st.permutations(rows), label="order")
    owners = [data.draw(st.integers(0, TASKS - 1), label="task") for _ in mixed]
    tasks = [[row for row, owner in zip(mixed, owners, strict=True) if owner == task] for task in range(TASKS)]
    return [cut(data, task, 2) for task in tasks]


def latest(spark: Any, folder: Path) -> dict[int, tuple[str | None, int]]:
    """What docs/change-streams.md makes of change files."""
    changes = spark.read.parquet(str(folder))
    changes.createOrReplaceTempView("changes")
    rows = spark.sql("""
        select id, max_by(n, lsn) as n,
               max_by(note, lsn) filter (where not coalesce(array_contains(unavailable, 'after.note'), false)) as note
        from changes group by id having max_by(op, lsn) <> 'd'
    """)
    return {row.id: (row.note, row.n) for row in rows.collect()}


@pytest.mark.spark
@pytest.mark.budget(90)
@pytest.mark.timeout(600)
@settings(
    max_examples=10,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # an example takes seconds, too long to look for a smaller one
)
@given(actions=st.lists(ACTIONS, min_size=8, max_size=25), data=st.data())
def test_topic_table_and_files_end_as_the_database(spark, kafka, cassandra, tmp_path, actions, data):
    database = Database()
    for action in actions:
        database.carry_out(action)
    parts = cut(data, database.changes, 3)
    fates = [data.draw(FATES, label="fate") for _ in parts]
    folder = tmp_path / uuid.uuid4().hex
    folder.mkdir()
    names = {"operationColumn": "op", "orderColumn": "lsn"}

    topic = kafka.create_topic(partitions=TASKS, cleanup_policy="compact")
    options = {"kafka.bootstrap.servers": kafka.address, "topic": topic, "delivery": "exactly-once"}
    options |= {"keyColumns": "id", "operationColumn": "op", "key.format": "json", "value.format": "json"}
    whole = sink_query("kafka", WHOLE, folder, **options)
    whole_rows = [[{k: v for k, v in row.items() if k != "unavailable"} for row in part] for part in parts]
    run(whole, [(by_key(rows, data), fate) for rows, fate in zip(whole_rows, fates, strict=True)])
    compacted: dict[int, tuple[str | None, int]] = {}
    places: dict[int, set[int]] = {}
    for record in kafka.read(topic):
        key = json.loads(record.key)["id"]
        places.setdefault(key, set()).add(record.partition)
        compacted.pop(key, None)
        if record.value is not None:
            row = json.loads(record.value)
            assert row["id"] == key and "op" not in row and row["lsn"] > 0
            compacted[key] = (row.get("note"), row["n"])
    assert compacted == database.rows
    assert all(len(partitions) == 1 for partitions in places.values()), "a key has one partition"
    assert places.keys() == {change["id"] for change in database.changes}

    table = cassandra.table("id bigint primary key, note text, n int")
    options = {**cassandra.options, "table": table, "unavailableColumn": "unavailable", **names}
    run(
        sink_query("cassandra", SCHEMA, folder, **options),
        [(anyhow(rows, data), fate) for rows, fate in zip(parts, fates, strict=True)],
    )
    assert {key: (note, n) for key, note, n in cassandra.rows(table, "id, note, n")} == database.rows

    out = folder / "changes"
    options = {"path": str(out), "bucketAssigner": "basePath", "keyColumns": "id", **names}
    run(
        sink_query("filesystem", SCHEMA, folder, **options),
        [(anyhow(rows, data), fate) for rows, fate in zip(parts, fates, strict=True)],
    )
    if database.changes:
        assert latest(spark, out) == database.rows
