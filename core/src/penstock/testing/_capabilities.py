"""Which capability a case is part of the proof of: that it is there, or that it is not and is refused cleanly."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # pytest's plugin needs this module, and nothing of what else that one imports
    from penstock.connector import Capability

__all__ = ["THE_SIDE", "Side", "capability_of", "proves", "refuses"]


class Side(Enum):
    """Stands for the capability that a suite needs at least: its ``side``."""

    SIDE = "side"


#: The one member, by which a case is marked.
THE_SIDE = Side.SIDE

_Case = Callable[..., None]


def proves(capability: Capability | Side) -> Callable[[_Case], _Case]:
    """Marks a case: it is part of the proof of ``capability``, and not run where that is not declared."""

    def mark(case: _Case) -> _Case:
        case.capability = capability  # type: ignore[attr-defined]
        return case

    return mark


def refuses(capability: Capability | Side) -> Callable[[_Case], _Case]:
    """Marks a case: it proves that a connector without ``capability`` says so. Run only where it is not declared."""

    def mark(case: _Case) -> _Case:
        case.capability = capability  # type: ignore[attr-defined]
        case.refuses = True  # type: ignore[attr-defined]
        return case

    return mark


def capability_of(case: Any, suite: Any) -> tuple[Capability | None, bool]:
    """Returns what ``case`` of ``suite`` is about, and whether it is about its absence; ``None`` for an author's own
    case.
    """
    capability = getattr(case, "capability", None)
    return suite.side if capability is THE_SIDE else capability, getattr(case, "refuses", False)
