"""Runs the commit protocol under random schedules, with a connector's sink on a model of its system."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from penstock.testing.simulation import MakeTarget, Report, search

__all__ = ["check_schedules", "check_seed"]


def check_schedules(target: MakeTarget, schedules: int, *ends: str, in_batch: bool = False) -> None:
    """Raises AssertionError with the first schedule that fails, or if no process came to one of these ``ends``.
    ``in_batch``: a batch function writes.

    An end that none of ``schedules`` schedules had may be rare rather than impossible: the search then goes on with as
    many again, ten times at most.
    """
    missing = set(ends)
    first = random.randrange(1 << 40)
    for start in range(first, first + 10 * schedules, schedules):
        report = _searched(range(start, start + schedules), target, in_batch=in_batch)
        missing -= report.ends.keys()
        if not missing:
            return
    raise AssertionError(f"none of {10 * schedules} schedules had: {', '.join(sorted(missing))}")


def check_seed(target: MakeTarget, seed: int, *, in_batch: bool = False) -> None:
    """Raises AssertionError if the schedule of a seed that once failed does so again."""
    _searched([seed], target, in_batch=in_batch)


def _searched(seeds: Sequence[int], target: MakeTarget, *, in_batch: bool) -> Report:
    logging.disable(logging.CRITICAL)
    try:
        report = search(seeds, target, in_batch=in_batch)
    finally:
        logging.disable(logging.NOTSET)
    assert not report.failures, str(report.failures[0])
    assert report.schedules == len(seeds), report
    return report
