"""Reading: every cell, and exactly the rows of one moment, or an error that says that they are gone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from penstock_postgres import PostgresConnector

from penstock.errors import BadConfigurationError, BadDataError, DataLostError
from penstock.testing import SourceQuery

ROWS = "insert into {} select n, 'row ' || n from generate_series({}, {}) n"


def source_of(postgres, table, **options):
    given = {**postgres.options(table), "rowsPerSplit": "10", "maxRowsPerTrigger": "10", **options}
    return PostgresConnector().create_source(PostgresConnector.source_options.parse(given, owner="source"))


@pytest.fixture
def table(postgres):
    made = postgres.table("id bigint primary key, text text")
    postgres.run(ROWS.format(made, 1, 30))
    return made


@pytest.fixture
def query(postgres, table):
    source = source_of(postgres, table)
    made = SourceQuery(source, source.fixed_schema())
    yield made
    made.stop()


def ids(rows):
    return [row["id"] for row in rows]


def rest(query):
    found = []
    while (rows := query.run_batch()) is not None:
        found += ids(rows)
    return found


def read_on(query, batch):
    query.read(batch)
    query.commit(batch)
    query.restart()
    query.plan()


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [("numeric", "'NaN'"), ("numeric", "1e30"), ("timestamp", "'infinity'"), ("date", "'0044-03-15 BC'")],
)
def test_a_value_that_spark_has_no_place_for_is_refused(postgres, column, value):
    table = postgres.table(f"id int primary key, cell {column}")
    postgres.run(f"insert into {table} values (1, {value})")
    source = source_of(postgres, table)
    with pytest.raises(BadDataError, match="rows"):
        SourceQuery(source, source.fixed_schema()).read_all_now()


def test_only_the_columns_that_are_asked_for(postgres, table):
    schema = pa.schema([("text", pa.string())])
    source = source_of(postgres, table)
    source.validate_schema(schema)
    assert SourceQuery(source, schema).read_all_now()[0] == {"text": "row 1"}
    with pytest.raises(BadConfigurationError, match="column 'other'"):
        source.validate_schema(pa.schema([("other", pa.string())]))


@pytest.mark.parametrize("column", ["text", "varchar(9)", "smallint", "int"])
def test_keys_of_other_types(postgres, column):
    table = postgres.table(f'"the 100% ""key""" {column} unique not null')
    postgres.run(f"insert into {table} select n from generate_series(1, 99) n")
    source = source_of(postgres, table, rowsPerSplit="7")
    (name,) = source.fixed_schema().names
    query = SourceQuery(source, source.fixed_schema())
    found = []
    while (rows := query.run_batch()) is not None:
        found += [int(row[name]) for row in rows]
        query.restart()
    assert sorted(found) == list(range(1, 100))


def test_long_rows_come_in_small_pieces(postgres):
    table = postgres.table("id bigint primary key, text text")
    postgres.run(f"insert into {table} select n, repeat('x', 50000) from generate_series(1, 2000) n")
    source = source_of(postgres, table, rowsPerSplit="2000", maxRowsPerTrigger="2000")
    query = SourceQuery(source, source.fixed_schema())
    sizes = [part.nbytes for splits in query.tasks(query.plan()) for part in query.read_task(splits)]
    assert sum(sizes) > 100_000_000 and max(sizes) < 8 << 20


# --- one moment -------------------------------------------------------------------------------------------------------


def test_what_comes_later_is_not_read(postgres, table, query):
    writer, prepared = postgres.connect(), postgres.connect()
    writer.execute("begin")
    writer.execute(f"insert into {table} values (-1, 'open at the moment')")
    prepared.execute("begin")
    prepared.execute(f"insert into {table} values (-2, 'prepared at the moment')")
    prepared.execute(f"prepare transaction '{table}'")
    batch = query.plan()
    writer.execute("commit")
    prepared.execute(f"commit prepared '{table}'")
    postgres.run(f"insert into {table} values (0, 'later'), (100, 'later')")
    for _ in range(2):
        query.restart()
        assert ids(query.read(batch)) == list(range(1, 11))
    query.commit(batch)
    assert rest(query) == list(range(11, 31))


CHANGES = {
    "deleted": "delete from {} where id = {}",
    "updated": "update {} set text = 'changed' where id = {}",
    "updated to what it was": "update {} set text = text where id = {}",
    "key changed": "update {} set id = 1000 where id = {}",
    "deleted and inserted": "with gone as (delete from {0} where id = {1} returning *) select 1 from gone;"
    "insert into {0} values ({1}, 'row {1}')",
    "truncated": "truncate {}",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["in the plan", "after the plan"])
def test_what_is_gone_is_not_read_as_something_else(postgres, table, query, change, where):
    batch = query.plan()
    statement = CHANGES[change].format(table, 5 if where == "in the plan" else 15)
    postgres.connect().execute(statement)
    query.restart()
    with pytest.raises(DataLostError, match="read"):
        read_on(query, batch)


def test_what_changed_is_read_as_it_is_if_the_user_says_so(postgres, table):
    source = source_of(postgres, table, failOnDataLoss="false")
    query = SourceQuery(source, source.fixed_schema())
    batch = query.plan()
    postgres.run(CHANGES["updated"].format(table, 5))
    postgres.run(CHANGES["deleted"].format(table, 15))
    query.restart()
    assert [row["text"] for row in query.read(batch)][4] == "changed"
    query.commit(batch)
    assert rest(query) == [i for i in range(11, 31) if i != 15]


def test_a_savepoint_that_was_open_at_the_moment_fails_rather_than_be_read(postgres, table, query):
    """A snapshot names transactions and not their savepoints: it can't tell that this one was open."""
    writer = postgres.connect()
    writer.execute("begin")
    writer.execute(f"insert into {table} values (-1, '')")
    writer.execute("savepoint one")
    writer.execute(f"insert into {table} values (0, 'within the savepoint')")
    postgres.run(f"insert into {table} values (31, 'of a later transaction')")
    batch = query.plan()
    writer.execute("commit")
    with pytest.raises(DataLostError):
        query.read(batch)


def test_a_vacuum_changes_nothing(postgres, table, query):
    batch = query.plan()
    for statement in ("vacuum freeze", "vacuum full", "analyze"):
        postgres.run(f"{statement} {table}")
    assert ids(query.read(batch)) == list(range(1, 11))
    query.commit(batch)
    query.restart()
    assert rest(query) == list(range(11, 31))


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ("id bigint, text text", {}, "there is none"),
        ("id uuid primary key", {}, "there is none"),
        ("id bigint primary key, other bigint", {"splitColumn": "other"}, "there is id"),
        ("id bigint primary key", {"splitColumn": "missing"}, "there is id"),
        ("a int, b int, primary key (a, b)", {}, "there is none"),
    ],
)
def test_a_table_that_can_not_be_split_is_refused(postgres, columns, more, message):
    with pytest.raises(BadConfigurationError, match=message):
        source_of(postgres, postgres.table(columns), **more).fixed_schema()
