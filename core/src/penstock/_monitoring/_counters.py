"""Connectors' own counters as metrics."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NOTICEABLE", "Counted", "counted"]

#: Counters that a person should see although the query continues: rows and files that are left out or changed, as the
#: options say, and work that was undone.
NOTICEABLE = (
    *("bad_rows", "rescued_rows", "dead_letters", "failed_rows", "rows_not_applied"),
    *("data_losses", "records_lost", "changed_files", "missing_files", "corrupt_files", "rewritten_files"),
    *("failed_listings", "failed_tidyings", "clean_failures", "transactions_aborted"),
)


class Counted(NamedTuple):
    """An amount of a metric; ``labels`` are those after the part of the query that counted."""

    metric: str
    labels: tuple[str, ...]
    amount: float


#: By the connectors' name: the metric, and how many of the counter make one of its unit.
_METRICS = {
    "rows_read": ("read.rows", 1),
    "bytes_read": ("read", 1),
    "rows_written": ("written.rows", 1),
    "bytes_written": ("written", 1),
    "bad_rows": ("bad.rows", 1),
    "dead_letters": ("dead_letters", 1),
    "rescued_rows": ("rescued.rows", 1),
    "failed_rows": ("dropped.rows", 1),
    "records_lost": ("lost.records", 1),
    "data_losses": ("data_losses", 1),
    "retries": ("retries", 1),
    "retry_ms": ("retry.time", 1000),
    "held_back_ms": ("held_back.time", 1000),
    "transactions_opened": ("transactions.opened", 1),
    "transactions_committed": ("transactions.committed", 1),
    "transactions_aborted": ("transactions.aborted", 1),
}
_ODD_FILES = ("changed_files", "missing_files", "corrupt_files", "rewritten_files")


def counted(name: str, amount: float) -> Counted:
    """Returns what ``amount`` of a connector's counter is. None is left out: one that is not known keeps its name."""
    if name in _ODD_FILES:
        return Counted("odd.files", (name.removesuffix("_files"),), amount)
    if name not in _METRICS:
        return Counted("connector.counts", (name,), amount)
    metric, each = _METRICS[name]
    return Counted(metric, (), amount / each)
