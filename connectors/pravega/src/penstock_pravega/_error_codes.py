"""Pravega's error codes. A number is never used for another situation."""

from __future__ import annotations

from penstock.error_codes import ErrorBook

__all__ = ["BOOK"]

#: ``PENSTOCK-PRAVEGA-NNN``.
BOOK = ErrorBook("PRAVEGA")

NO_CONTROLLER = BOOK.add(
    1,
    "No controller or segment store answers",
    raised_in=["penstock_pravega.client:RetriableError"],
    causes=["The host's name does not resolve, or nothing listens at the port.", "The servers are down or overloaded.",
            "Segment stores advertise addresses that can't be reached from here."],
    remedies=["Correct the option `controller`.", "A query: restart it once the servers answer."],
)  # fmt: skip
WRONG_PORT = BOOK.add(
    2,
    "The address is not that of a controller, or TLS does not match",
    raised_in=["penstock_pravega.client._endpoint"],
    causes=["The port speaks TLS and the option is written as `tcp://`, or the other way round.",
            "Another server listens there.", "A certificate is not trusted, or is for another name."],
    remedies=["Write `tls://host:port` for a port with TLS, `tcp://host:port` for one without.",
              "Correct the port (9090, unless configured otherwise), or `tls.caFile`."],
)  # fmt: skip
BOOK.add(
    3,
    "The servers refuse the credentials",
    raised_in=["penstock_pravega.client:BadConfigurationError", "penstock_pravega.client._keycloak"],
    causes=["User, password or token is wrong, or the user has no right to the stream.",
            "Keycloak's file or its certificate is wrong."],
    remedies=["Correct `username` and `password`, or `keycloakFile` (docs/pravega.md)."],
)  # fmt: skip
BOOK.add(
    4,
    "A scope or a stream does not exist",
    raised_in=["penstock_pravega.client:UnknownStreamError", "penstock_pravega.sink._sink"],
    causes=["The name is misspelled, or the stream was deleted or not created yet."],
    remedies=["Correct the option `stream`, as scope/stream.", "Set `create=true` on the sink."],
)
BOOK.add(
    5,
    "The server or client can't continue",
    raised_in=["penstock_pravega.client:FatalError"],
    causes=["An answer that the client does not know."],
    remedies=["Restart the query.", "Report it with the message, if it comes again."],
)
BOOK.add(
    6,
    "An option of Pravega is wrong",
    raised_in=["penstock_pravega.options"],
    causes=["A value of another form, or options that exclude each other."],
    remedies=["Correct the option that the message names (docs/pravega.md)."],
)
BOOK.add(
    7,
    "The columns do not fit, or a row can't be written",
    raised_in=["penstock_pravega.sink._rows", "penstock_pravega.sink._event_appender"],
    causes=["There is no column `value`, or the routing key is null or no string.", "The stream is sealed."],
    remedies=["Select a column `value` of text or bytes.", "Correct `routingKey`."],
)
BOOK.add(
    8,
    "A transaction is over, or too old",
    raised_in=["penstock_pravega.sink._committer", "penstock_pravega.sink._writer"],
    causes=["Its lease ran out while the driver or a task was away.", "The stream was sealed."],
    remedies=["Restart the query: the batch is written again.", "Set `transactionLease` higher."],
)
BOOK.add(
    9,
    "An event can't be read",
    raised_in=["penstock_pravega.source"],
    causes=["The stream holds bytes that are no events.", "A stream cut points into an event."],
    remedies=["Set `framing=none` for a stream of bytes.", "Correct `startingStreamCut`."],
)
BOOK.add(
    10,
    "A development server of Pravega can't be started",
    raised_in=["penstock_pravega.dev"],
    causes=["A port is taken, Java or another program is missing, or the version is not one that can be started."],
    remedies=["Do as the message says.", "See `penstock dev status`."],
)
