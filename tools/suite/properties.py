"""What holds for all tests of properties: none of them asserts how fast the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Fixtures are made once for all examples of a test: these tests know it, and name what each example writes.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("suite")
