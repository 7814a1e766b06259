"""The conformance kit's cases in two tiers: a suite of ours runs some of them, or some of their parameters, by default.

The kit itself knows no tiers: it is for authors, whose suites are their own. A suite of ours takes a copy of a case::

    class TestSinkOnSpark(SparkSinkSuite):
        test_a_process_is_killed = by_default(
            SparkSinkSuite.test_a_process_is_killed, "before publish", otherwise="every other step of a batch"
        )
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.testing import SinkSuite, SinkTarget, SparkSinkSuite, SparkSourceSuite
from suite.tiers import MARKER

__all__ = [
    "ALIKE_IN_BATCH",
    "AS_OF_FILES",
    "MANY_BATCHES",
    "MANY_ROWS",
    "WITHOUT_SPARK",
    "OneCrashOfEachKind",
    "TieredSparkSinkSuite",
    "TieredSparkSourceSuite",
    "by_default",
    "only_columns_of",
]

#: Why crashes in a batch function are in the second tier, for systems that need seconds for them.
ALIKE_IN_BATCH = "the files' sink shows it at every step; the sink is the same as in test_a_crash_at_every_step"
#: Why memory over rows, or batch after batch, is in the second tier, for systems that need many seconds for them.
MANY_ROWS = "rows twice, and more of them; without a server, the files' suite has this case by default"
MANY_BATCHES = "some hundred batches; without a server, the files' suite has this case by default"
#: Why a case on Spark is in the second tier.
WITHOUT_SPARK = "on Spark what the suite without Spark shows"
#: The same for what Spark does alike with every connector.
AS_OF_FILES = "the files' suite on Spark has the case; of other systems, the suite without Spark crashes at every step"


def only_columns_of(schema: pa.Schema) -> Callable[[pa.Field], None]:
    """Returns ``SinkTarget.prepare`` of a system whose records have no further columns.

    One whose name differs only in case is no further column: the sink has to tell them apart, or refuse it.
    """

    def prepare(field: pa.Field) -> None:
        if field.name.lower() not in schema.names:
            raise NotImplementedError

    return prepare


def by_default(case: Callable[..., None], *values: object, otherwise: str) -> Callable[..., None]:
    """A copy of a case: with these ``values`` of its one parameter in the first tier, with the others in the second.

    Without ``values`` all of it is in the second. ``otherwise`` is the marker's reason.
    """

    @functools.wraps(case)
    def copy(*args: Any, **kwargs: Any) -> None:
        case(*args, **kwargs)

    second_tier = getattr(pytest.mark, MARKER)(otherwise)
    marks = list(getattr(case, "pytestmark", []))
    if not values:
        marks.append(second_tier.mark)
    else:
        (given,) = [mark for mark in marks if mark.name == "parametrize"]
        name, cases = given.args
        unknown = set(values) - set(cases)
        assert not unknown, f"{case.__name__} has no case {unknown}"
        tiers = [value if value in values else pytest.param(value, marks=second_tier) for value in cases]
        marks[marks.index(given)] = pytest.mark.parametrize(name, tiers).mark
    copy.pytestmark = marks  # type: ignore[attr-defined]
    return copy


class TieredSparkSinkSuite(SparkSinkSuite):
    """For a sink whose suite without Spark is in the same file."""

    test_a_process_is_killed = by_default(
        SparkSinkSuite.test_a_process_is_killed,
        otherwise="a driver for each step; test_one_sleeps_one_dies_and_one_loses_tasks has every connector, and "
        "test_a_crash_at_every_step all steps without Spark",
    )
    test_a_batch_function_is_killed = by_default(SparkSinkSuite.test_a_batch_function_is_killed, otherwise=AS_OF_FILES)
    test_a_batch_write_that_fails = by_default(SparkSinkSuite.test_a_batch_write_that_fails, otherwise=AS_OF_FILES)
    test_options_take_effect_or_are_refused = by_default(
        SparkSinkSuite.test_options_take_effect_or_are_refused, otherwise=WITHOUT_SPARK
    )
    test_batches_without_rows = by_default(SparkSinkSuite.test_batches_without_rows, otherwise=WITHOUT_SPARK)
    test_metrics_count_rows = by_default(SparkSinkSuite.test_metrics_count_rows, otherwise=WITHOUT_SPARK)
    test_scale_up_and_down = by_default(SparkSinkSuite.test_scale_up_and_down, otherwise=WITHOUT_SPARK)
    test_text_arrives_as_it_is = by_default(SparkSinkSuite.test_text_arrives_as_it_is, otherwise=WITHOUT_SPARK)
    test_a_huge_row_is_written_or_refused = by_default(
        SparkSinkSuite.test_a_huge_row_is_written_or_refused, otherwise=WITHOUT_SPARK
    )


class TieredSparkSourceSuite(SparkSourceSuite):
    """For a source whose suite without Spark is in the same file: a reader is killed at one step by default."""

    test_a_reader_is_killed = by_default(
        SparkSourceSuite.test_a_reader_is_killed,
        "after fetch",
        otherwise="a kill at the other step; the one after a fetch stays",
    )
    test_options_take_effect_or_are_refused = by_default(
        SparkSourceSuite.test_options_take_effect_or_are_refused, otherwise=WITHOUT_SPARK
    )


class OneCrashOfEachKind(SinkSuite):
    """A crash at one step of each kind, and at all of them with ``--all``: for systems that need seconds for a run."""

    def _crash_points(self, steps: Sequence[str]) -> list[int]:
        """Returns one of each kind, in the midst of the run."""
        kinds: dict[str, list[int]] = {}
        for at, step in enumerate(steps):
            kinds.setdefault(re.sub(r"\d+", "", step), []).append(at)
        return [every[len(every) // 2] for every in kinds.values()]

    test_a_batch_function_crashes_at_every_step = by_default(
        SinkSuite.test_a_batch_function_crashes_at_every_step, otherwise=ALIKE_IN_BATCH
    )

    @pytest.mark.exhaustive("a crash at all steps of a run; test_a_crash_at_every_step has one of each kind")
    def test_a_crash_at_every_step_of_each_kind(
        self, new_target: Callable[[], SinkTarget], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """See :meth:`test_a_crash_at_every_step`."""
        monkeypatch.setattr(self, "_crash_points", functools.partial(SinkSuite._crash_points, self))
        self.test_a_crash_at_every_step(new_target, tmp_path)
