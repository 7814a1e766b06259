"""Names of tables and columns, and values of filters, stay what they are in CQL, whatever they hold."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.source import ColumnFilter
from penstock_cassandra._lookup import Lookup
from penstock_cassandra._tables import Column, Table, quoted
from penstock_cassandra.options import SINK_OPTIONS, SinkOptions
from penstock_cassandra.sink._plan import write_plan
from penstock_cassandra.source._cql import Select, _tokens, parse_select, split_conditions
from penstock_cassandra.source._filters import conditions_for, literal
from suite.hostile import TEXTS

SOME = settings(max_examples=100, derandomize=True)
#: What would end a name or a text, or begin a comment or another statement.
texts = st.one_of(
    st.sampled_from(TEXTS), st.text(alphabet="ab\"'`;-/*$\\ ?:\n\x00(),=.", max_size=12), st.text(max_size=8)
)


def kinds(cql):
    return [(token.kind, token.text if token.kind == "sign" else "") for token in _tokens(cql)]


@SOME
@given(texts)
def test_a_name_is_one_name_and_a_text_one_text(text):
    (name,) = _tokens(quoted(text))
    assert (name.kind, name.identifier) == ("name", text)
    (value,) = _tokens(literal("text", text))
    assert value.kind == "text" and value.text[1:-1].replace("''", "'") == text


@SOME
@given(texts, texts, texts)
def test_filters_are_conditions_on_their_columns(first, second, value):
    if first == second or not first or not second:
        return
    columns = {name: Column(name, kind) for name, kind in ((first, "text"), (second, "int"))}
    key, other = columns.values()
    table = Table("", columns, (key,), (other,))
    filters = [ColumnFilter(first, "=", value), ColumnFilter(second, ">=", 7)]
    found, served = conditions_for(table, filters)
    assert served == filters
    assert [split_conditions(one) for one in found] == [[(first, "=")], [(second, ">=")]]
    query = Select("*", first, second).cql(" AND ".join(found))
    again = parse_select(query, "")
    assert (again.keyspace, again.table) == (first, second)
    assert split_conditions(again.where) == [(first, "="), (second, ">=")]


class Client:
    """Keeps the statements that it is asked to prepare."""

    def __init__(self, keyspace, table, columns):
        self.asked = []
        self._table = {
            "tables": [(None, {"compound"})],
            "columns": [
                (name, "partition_key" if number == 0 else "regular", -1 + (number == 0), "text")
                for number, name in enumerate(columns)
            ],
        }
        self._names = {(keyspace, table), (keyspace,)}

    def local_rows(self, *queries):
        """Rows of ``system_schema``."""
        assert {values for _, values in queries} <= self._names
        return [self._table.get(cql.partition("system_schema.")[2].split()[0], []) for cql, _ in queries]

    def prepare(self, cql, table_id=""):
        self.asked.append(cql)
        text = SimpleNamespace(typename="text")
        return SimpleNamespace(markers=[("", "", "", text)] * kinds(cql).count(("sign", "?")), columns=[])


def statements(keyspace, table, key, column, deleted):
    """What the sink and the lookup prepare."""
    schema = pa.schema([(key, pa.string()), (column, pa.string()), (deleted, pa.bool_())])
    given = {"keyspace": keyspace, "table": table, "deleteColumn": deleted}
    client = Client(keyspace, table, [key, column])
    write_plan(client, SinkOptions.from_values(SINK_OPTIONS.parse(given, owner="sink")), schema)
    Lookup({"keyspace": keyspace, "table": table}, {"k": key}, [column])._prepare(client)
    return client.asked


@pytest.mark.parametrize("text", [text for text in TEXTS if "\ud800" not in text])
def test_no_name_changes_a_statement(text):
    usual = statements("k", "t", "a", "b", "c")
    made = statements(text, f"{text}t", f"{text}a", f"{text}b", f"{text}c")
    assert len(usual) == 3
    for plain, hostile in zip(usual, made, strict=True):
        assert kinds(hostile) == kinds(plain)
        names = {token.identifier for token in _tokens(hostile) if token.kind == "name"}
        assert {f"{text}t", text} <= names <= {text, *(f"{text}{end}" for end in "tab")}
