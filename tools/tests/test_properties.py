"""Tests of properties by Hypothesis, all of which hold the same settings."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

import suite.properties


def test_no_property_depends_on_how_fast_the_machine_is():
    assert suite.properties
    for one in (settings.default, settings(max_examples=5), settings(settings(derandomize=True), max_examples=5)):
        assert one.deadline is None and HealthCheck.too_slow in one.suppress_health_check
        assert HealthCheck.filter_too_much not in one.suppress_health_check
