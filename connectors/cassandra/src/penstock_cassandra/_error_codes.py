"""Cassandra's error codes. A number is never used for another situation."""

from __future__ import annotations

from penstock.error_codes import ErrorBook

__all__ = ["BOOK"]

#: ``PENSTOCK-CASSANDRA-NNN``.
BOOK = ErrorBook("CASSANDRA")

NO_NODE = BOOK.add(
    1,
    "No node answers",
    raised_in=["penstock_cassandra.client:RetriableError"],
    causes=["The host's name does not resolve, or nothing listens at the port.", "The nodes are down or overloaded.",
            "A firewall drops what is sent."],
    remedies=["Correct the options `host` and `port`.", "A query: restart it once the nodes answer."],
)  # fmt: skip
WRONG_PORT = BOOK.add(
    2,
    "The address is not that of a Cassandra node, or TLS does not match",
    causes=["The port speaks TLS and the option `tls` is off, or the other way round.",
            "Another server listens there."],
    remedies=["Set `tls` to what the port speaks.", "Correct `host` and `port` (9042, unless configured otherwise)."],
)  # fmt: skip
CREDENTIALS = BOOK.add(
    3,
    "The cluster refuses the user, the password or the certificate",
    raised_in=["penstock_cassandra.client._cluster", "penstock_cassandra.client._settings"],
    causes=["`user` or `password` is wrong.", "A certificate, key or bundle can't be used, or is not trusted."],
    remedies=["Correct `user` and `password`, `tls.*` or `bundle`."],
)
NOT_PERMITTED = BOOK.add(
    4,
    "The user lacks a permission",
    causes=["The role may not read or modify the table."],
    remedies=["Grant what the message names (docs/production/rights.md)."],
)
REFUSED_STATEMENT = BOOK.add(
    5,
    "The cluster refuses a statement",
    raised_in=["penstock_cassandra.client:BadConfigurationError"],
    causes=["The option `query` or `statement` is no CQL, or names what does not exist."],
    remedies=["Try the statement in cqlsh, and correct the option."],
)
BOOK.add(
    6,
    "A keyspace or a table does not exist",
    raised_in=["penstock_cassandra._tables", "penstock_cassandra.sink._committer"],
    causes=["The name is misspelled, or of another case.", "It was dropped, or not created yet."],
    remedies=["Correct `keyspace` and `table`, or create the table."],
)
BOOK.add(
    7,
    "The columns or the statement do not fit the table",
    raised_in=["penstock_cassandra.sink", "penstock_cassandra.types", "penstock_cassandra._lookup"],
    causes=["A column of the key is missing, a name is unknown, or a type has no counterpart."],
    remedies=["Rename or cast in a select before the write.", "Correct `columns` or `statement` (docs/cassandra.md)."],
)
BOOK.add(
    8,
    "A row can't be written",
    raised_in=["penstock_cassandra.sink:BadDataError", "penstock_cassandra.types._encode:BadDataError",
               "penstock_cassandra.types._encode_slow:BadDataError"],
    causes=["A value is beyond the column's type, a key is null, or the row is too large."],
    remedies=["Correct or filter such rows.", "Divert them: `deadLetters.format` (docs/dead-letters.md)."],
)  # fmt: skip
BOOK.add(
    9,
    "A query can't be read in splits",
    raised_in=["penstock_cassandra.source"],
    causes=["It has an aggregate, a condition on token() or IN on the partition key, or names what is not there."],
    remedies=["Simplify the option `query`, and do the rest in Spark (docs/cassandra.md)."],
)
BOOK.add(
    10,
    "An answer of the cluster can't be read",
    raised_in=["penstock_cassandra.client:BadDataError", "penstock_cassandra.native",
               "penstock_cassandra.types:BadDataError", "penstock_cassandra.source:BadDataError",
               "penstock_cassandra.client:FatalError"],
    causes=["A value is of a form that can't be read, or the answer was cut off."],
    remedies=["Restart the query.", "Leave the column out, or read it as a string, if it comes again."],
)  # fmt: skip
BOOK.add(
    11,
    "A table was dropped and created again",
    raised_in=["penstock_cassandra._tables:DataLostError"],
    causes=["The table that the query reads or writes is another one than at its start."],
    remedies=["Start with a new checkpoint location."],
)
BOOK.add(
    12,
    "An option of Cassandra is wrong",
    raised_in=["penstock_cassandra.options"],
    causes=["The option has another form than the message shows."],
    remedies=["Correct it (docs/cassandra.md)."],
)
BOOK.add(
    13,
    "A development server of Cassandra can't be started",
    raised_in=["penstock_cassandra.dev"],
    causes=["A port is taken, Java or another program is missing, or the version is not one that can be started."],
    remedies=["Do as the message says.", "See `penstock dev status`."],
)
