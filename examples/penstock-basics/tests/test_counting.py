"""Counting, as Spark drives it."""

from __future__ import annotations

import pytest
from penstock_basics.counting import CountConnector, ResettableCountConnector

from penstock.errors import BadConfigurationError
from penstock.testing import SourceQuery


def query(connector, **options):
    parsed = connector.source_options.parse(options, owner="source")
    source = connector().create_source(parsed)
    return SourceQuery(source, source.fixed_schema(), available_now=options.pop("available_now", False))


def numbers(rows):
    return [row["number"] for row in rows]


@pytest.mark.parametrize(("connector", "after"), [(CountConnector, [7, 8]), (ResettableCountConnector, [11, 12])])
def test_what_a_restart_does(connector, after):
    counting = query(connector, start="7", rowsPerBatch="2")
    assert numbers(counting.run_batch()) == [7, 8]
    batch = counting.plan()
    assert numbers(counting.read(batch)) == [9, 10]
    counting.restart()
    assert numbers(counting.read(batch)) == [9, 10], "a planned batch is the same batch"
    counting.commit(batch)
    assert numbers(counting.run_batch()) == after
    counting.stop()


def test_a_run_over_what_is_there_now_is_one_batch():
    counting = query(ResettableCountConnector, rowsPerBatch="3")
    counting.available_now = True
    counting.restart()
    assert numbers(counting.run_batch()) == [0, 1, 2] and counting.run_batch() is None
    counting.restart()
    assert numbers(counting.run_batch()) == [3, 4, 5] and counting.run_batch() is None
    counting.stop()


def test_large_batches_come_in_pieces():
    counting = query(CountConnector, rowsPerBatch="25000")
    parts = list(counting.read_task(counting.tasks(counting.plan())[0]))
    assert [part.num_rows for part in parts] == [10_000, 10_000, 5_000]
    counting.stop()


def test_options_are_checked():
    with pytest.raises(BadConfigurationError, match="rowsPerBatch"):
        query(CountConnector, rowsPerBatch="0")
