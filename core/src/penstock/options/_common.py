"""The options that mean the same in every connector that has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.options._option import Option

__all__ = ["COMMON_OPTIONS", "OF_THE_ENGINE", "common_option"]

#: By name. A connector that has one of them declares it with :func:`common_option`.
COMMON_OPTIONS = {
    option.name: option
    for option in (
        Option("delivery", "What a crash may do to the rows of a batch", kind="choice"),
        Option("badRecords", "What happens to a record that can't be decoded", kind="choice"),
        Option("badRecordColumn", "Name of the column with what can't be decoded"),
        Option(
            "keyColumns",
            "Columns that are the key of a row, with commas between; none of them may be null",
            kind="columns",
        ),
        Option(
            "operationColumn",
            "Column that says what a change is, in Debezium's letters: c, u or r (the row is there), or d (it is "
            "deleted); others are refused",
            kind="column",
        ),
        Option(
            "orderColumn",
            "Column with the position of a change, never null: of the changes of one key the greatest is the last",
            kind="column",
        ),
        Option(
            "unavailableColumn",
            "Column with the names of the columns whose value the database did not send, as format debezium gives them",
            kind="column",
        ),
        Option(
            "maxRowsPerTrigger", "Most rows in a micro-batch", kind="int", minimum=1, only_in="stream", tolerated=True
        ),
        Option(
            "maxBytesPerTrigger",
            "Most bytes in a micro-batch",
            kind="bytes",
            minimum=1,
            only_in="stream",
            tolerated=True,
        ),
        Option(
            "discoveryInterval",
            "Pause between two looks for new input",
            kind="duration",
            minimum=1,
            only_in="stream",
            tolerated=True,
        ),
        Option(
            "failOnDataLoss",
            "What was deleted before it was read: an error, or (false) reading continues after it, with a warning",
            kind="bool",
            default="true",
        ),
        Option("requestTimeout", "How long one request may take", kind="duration", default="30s", minimum=1),
        Option(
            "retryTimeout",
            "How long a failed call (timeout, node down, overload) is tried again, with growing pauses, before the "
            "query fails; 0: not at all",
            kind="duration",
            default="2m",
            minimum=0,
        ),
        Option("user", "User name"),
        Option("password", "Password of the user", secret=True),
        Option("tls.caFile", "Certificates to trust (PEM)", kind="file"),
        Option(
            "tls.checkHostname",
            "Whether the server's name must be in its certificate",
            kind="bool",
            default="true",
        ),
    )
}


#: Those that the engine takes for every connector: what a connector makes of its options does not show them.
OF_THE_ENGINE = frozenset({"retryTimeout"})


def common_option(name: str, detail: str = "", /, **changes: Any) -> Option:
    """Declares the common option ``name``; ``detail`` follows its text, ``changes`` are fields of :class:`Option`.

    The name and the kind stay, and so does the meaning. Raises KeyError for a name that is not common, and TypeError
    for a change of what stays.
    """
    if changes.keys() & {"name", "kind", "doc"}:
        raise TypeError("a common option keeps its name, its kind and its text")
    common = COMMON_OPTIONS[name]
    return replace(common, doc=f"{common.doc}{detail}", **changes)
