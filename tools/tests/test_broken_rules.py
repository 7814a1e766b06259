"""The simulator finds each rule of the commit protocol that is taken out of the code."""

from __future__ import annotations

import logging

import pytest

from suite.broken_rules import RULES, broken, violation

BY_NAME = {rule.name: rule for rule in RULES}


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_rule_is_missed_under_the_seed_that_found_it(name):
    """And that schedule goes well with it: these are the seeds that have ever failed."""
    rule = BY_NAME[name]
    assert rule.seed is not None, "python -m suite.broken_rules"
    with broken(rule):
        assert violation(rule, rule.seed)
    assert violation(rule, rule.seed) == ""


@pytest.mark.exhaustive("minutes; the seeds that are known stay")
@pytest.mark.parametrize("name", BY_NAME)
def test_a_rule_is_missed_within_ten_thousand_schedules(name):
    with broken(BY_NAME[name]):
        assert any(violation(BY_NAME[name], seed) for seed in range(10_000))
