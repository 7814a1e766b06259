"""Which capability a case is part of the proof of; what both suites share."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from penstock.plugins import Capability, Connector

__all__ = ["ConnectorSuite", "proves"]


def proves(capability: Capability) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a case: it is part of the proof of ``capability``, and not run where that is not declared."""

    def mark(case: Callable[..., None]) -> Callable[..., None]:
        case.capability = capability  # type: ignore[attr-defined]
        return case

    return mark


class ConnectorSuite:
    """What the suites of sources and of sinks share: the connector under test, and cases by capability."""

    is_penstock_suite: ClassVar[bool] = True
    connector: ClassVar[type[Connector]]

    @pytest.fixture(autouse=True)
    def _declared(self, request: pytest.FixtureRequest) -> None:
        capability = getattr(request.function, "capability", None)
        if capability is not None and capability not in self.connector.capabilities:
            pytest.skip(f"not declared: {capability}")
