"""Conditions on the options that a user gave: what an option needs, and what it excludes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Condition", "unless", "when"]


class _Values(Protocol):
    def is_set(self, name: str) -> bool: ...

    def get(self, key: str, /) -> Any: ...


@dataclass(frozen=True)
class Condition:
    """Whether an option of the same source or sink has one of some values; see :func:`when` and :func:`unless`.

    ``values`` are compared without regard to case with the option's value, its default included; ``None`` among them
    stands for an option without a value. Without ``values``, any value counts but false.
    """

    option: str
    values: tuple[str | None, ...] = ()
    negated: bool = False

    def holds(self, given: _Values) -> bool:
        """Returns whether the condition holds for ``given``."""
        return self._is_on(given) != self.negated

    def _is_on(self, given: _Values) -> bool:
        if self.option.endswith(".*"):
            return given.is_set(self.option)
        value = given.get(self.option)
        if not self.values:
            return value is not None and value is not False
        return _plain(value) in {_plain(wanted) for wanted in self.values}

    def shown(self, given: _Values) -> str:
        """Returns :meth:`__str__`, and a switch with its value: ``tls=true``."""
        if not self.values and isinstance(given.get(self.option), bool):
            return f"{self.option}={'false' if self.negated else 'true'}"
        return str(self)

    def __str__(self) -> str:
        """Returns what a user would write: ``cleanSource=archive``, ``format=csv or json``, ``'table'``."""
        named = [value for value in self.values if value is not None]
        if self.negated and named:
            return f"{self.option} other than {' or '.join(named)}"
        if self.negated:
            return f"no '{self.option}'"
        return f"{self.option}={' or '.join(named)}" if named else f"'{self.option}'"


def _plain(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).strip().lower()


def when(option: str, *values: str | None) -> Condition:
    """Returns the condition that ``option`` has one of ``values``; without values, that it has any, and not false.

    ``when("cleanSource", "archive")``, ``when("tls")``, ``when("bucketAssigner", "dateTime", None)``: dateTime or
    unset.
    """
    return Condition(option, values)


def unless(option: str, *values: str | None) -> Condition:
    """Returns the opposite of :func:`when`: ``unless("query")``, ``unless("value.format", "binary")``."""
    return Condition(option, values, negated=True)
