"""How one setting is translated: it is taken as it is, renamed, converted, left out or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.errors import BadConfigurationError

__all__ = ["Rule", "at_most", "only", "refused", "renamed", "unused", "whole", "wrong"]

#: From a value and all settings given (canonical names) to librdkafka's settings; ``None`` if it has no effect here.
#: A ValueError says, after the setting's name, what is wrong and what to write instead. It never holds the value of
#: a secret setting.
Rule = Callable[[str, Mapping[str, str]], Mapping[str, str] | None]


def wrong(name: str, advice: str) -> BadConfigurationError:
    """Returns the error for one client setting: its name and what to do about it."""
    return BadConfigurationError(f"option 'kafka.{name}' {advice}")


def renamed(name: str) -> Rule:
    """Returns the same thing under librdkafka's name."""

    def rule(value: str, given: Mapping[str, str]) -> Mapping[str, str] | None:
        return {name: value}

    return rule


def unused(value: str, given: Mapping[str, str]) -> Mapping[str, str] | None:
    """Harmless without an effect."""
    return None


def refused(advice: str) -> Rule:
    """Would break something, or promise something that does not happen."""

    def rule(value: str, given: Mapping[str, str]) -> Mapping[str, str] | None:
        raise ValueError(advice)

    return rule


def only(accepted: str, advice: str) -> Rule:
    """Harmless without an effect if it is ``accepted`` (separated by blanks), else refused."""

    def rule(value: str, given: Mapping[str, str]) -> Mapping[str, str] | None:
        if not {part.strip().lower() for part in value.split(",")} <= set(accepted.lower().split()):
            raise ValueError(advice)
        return None

    return rule


def whole(value: str) -> int:
    """Returns a whole number. Raises ValueError."""
    try:
        return int(value)
    except ValueError:
        raise ValueError("needs a whole number") from None


def at_most(number: int, most: int) -> str:
    """``number`` as text. Raises ValueError above what librdkafka takes."""
    if number > most:
        raise ValueError(f"may be {most} at most with this connector's client (librdkafka)")
    return str(number)
