"""What a table is: its columns, its types, its unique keys."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from penstock.errors import BadConfigurationError
from penstock_postgres.client._connection import Connection, errors

__all__ = ["Column", "Table", "describe"]

# A domain is stored as its base type; an enum arrives and leaves as text.
_COLUMNS = """
select a.attname, coalesce(b.typname, t.typname), coalesce(nullif(t.typtypmod, -1), a.atttypmod),
       t.typtype = 'e', a.attnotnull and not a.atthasdef and a.attidentity = '', a.attgenerated <> '',
       coalesce(a.attidentity, '') = 'a'
from pg_attribute a join pg_type t on t.oid = a.atttypid left join pg_type b on b.oid = nullif(t.typbasetype, 0)
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_UNIQUE = """
select i.indisprimary, array(
         select a.attname::text from unnest(i.indkey[:i.indnkeyatts - 1]) with ordinality k(number, place)
         join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number order by k.place)
from pg_index i where i.indrelid = %s and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
order by i.indisprimary desc, i.indexrelid
"""


@dataclass(frozen=True)
class Column:
    """``type_name`` is PostgreSQL's (int4, text, numeric); ``modifier`` holds a numeric's precision and scale."""

    name: str
    type_name: str
    modifier: int
    is_enum: bool
    must_be_given: bool
    is_generated: bool

    @property
    def decimal_places(self) -> tuple[int, int] | None:
        """Precision and scale of a numeric that declares them."""
        if self.type_name != "numeric" or self.modifier < 4:
            return None
        return (self.modifier - 4) >> 16 & 0xFFFF, (self.modifier - 4) & 0x7FF


@dataclass(frozen=True)
class Table:
    """A table as the driver found it. Picklable: tasks get it."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    #: The columns of each unique key, the primary key first.
    unique: tuple[tuple[str, ...], ...]

    @property
    def path(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    def neighbour(self, name: str) -> sql.Identifier:
        """Another table, in the schema of this one."""
        return sql.Identifier(self.schema, name)

    def column(self, name: str) -> Column:
        """Raises BadConfigurationError if it is not there."""
        for one in self.columns:
            if one.name == name:
                return one
        there = ", ".join(one.name for one in self.columns)
        raise BadConfigurationError(f"table {self.schema}.{self.name} has no column '{name}': it has {there}")

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def describe(connection: Connection, table: str) -> Table:
    """Looks a table up by its name in SQL: ``orders``, ``shop.orders``, ``"Orders"``. Raises BadConfigurationError."""
    with errors(f"table {table}"):
        found = "select c.oid, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        found += " where c.oid = to_regclass(%s) and c.relkind in ('r', 'p')"
        row = connection.execute(found, [table]).fetchone()
        if row is None:
            raise BadConfigurationError(f"the database has no table {table}")
        oid, schema, name = row
        columns = connection.execute(_COLUMNS, [oid]).fetchall()
        unique = connection.execute(_UNIQUE, [oid]).fetchall()
    return Table(
        schema,
        name,
        tuple(
            Column(column, kind, modifier, is_enum, must_be_given, is_generated or is_always_identity)
            for column, kind, modifier, is_enum, must_be_given, is_generated, is_always_identity in columns
        ),
        tuple(tuple(names) for _, names in unique),
    )
