"""The search through random schedules says so if it never came to what the test is about."""

from __future__ import annotations

import pytest

from penstock.testing.simulation import PieceTarget
from suite.schedules import check_schedules


def test_an_end_that_few_schedules_have_is_searched_for():
    check_schedules(PieceTarget, 40, "killed inside")


def test_an_end_that_no_schedule_has_fails():
    with pytest.raises(AssertionError, match="none of 20 schedules had: never so"):
        check_schedules(PieceTarget, 2, "done", "never so")
