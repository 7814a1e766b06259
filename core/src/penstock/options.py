"""Options declared once, as data: validation, ``penstock describe`` and the reference page are made from them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any, Literal

from penstock.errors import BadConfigurationError

__all__ = ["Option", "OptionSet", "OptionValues", "load_object", "nearest_hint", "parse_bytes", "parse_duration_ms"]

Kind = Literal["string", "int", "float", "bool", "bytes", "duration", "choice"]

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
_BYTES |= {"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30, "t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40}
_DURATION = {"ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000, "min": 60_000}
_DURATION |= {"minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000}
_DURATION |= {"week": 604_800_000}
_NUMBER_UNIT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")
#: Scheme and what stands before the host. A user without a password may be a token.
_USER = re.compile(r"(\w*)://([^/\s,]*)@")
#: Schemes of file systems whose addresses begin with the name of a container or a user.
_PLAIN_USERS = {"abfs", "abfss", "wasb", "wasbs", "hdfs"}


def parse_bytes(text: str) -> int:
    """``"128mb"``, ``"1 GiB"``, ``"4096"`` → bytes (units are powers of 1024). Raises ValueError."""
    match = _NUMBER_UNIT.match(text)
    unit = match.group(2).lower() if match else None
    if match is None or unit not in _BYTES:
        raise ValueError("a size such as 128mb, 1g or 4096 (bytes)")
    return int(float(match.group(1)) * _BYTES[unit])


def parse_duration_ms(text: str) -> int:
    """``"10 seconds"``, ``"1m"``, ``"500ms"``, ``"7d"`` → milliseconds; a bare number is ms. Raises ValueError."""
    match = _NUMBER_UNIT.match(text)
    if match is not None:
        unit = match.group(2).lower() or "ms"
        factor = _DURATION.get(unit) or _DURATION.get(unit.removesuffix("s"))
        if factor is not None:
            return int(float(match.group(1)) * factor)
    raise ValueError("a duration such as 10s, 5 minutes or 500ms")


def load_object(owner: str, reference: str) -> Any:
    """The object that an option names as ``package.module:name``. Raises BadConfigurationError that names ``owner``."""
    module, _, path = reference.partition(":")
    try:
        return reduce(getattr, path.split("."), import_module(module))
    except BadConfigurationError:
        raise
    except Exception as error:
        raise BadConfigurationError(
            f"{owner}: {reference} can't be imported: {type(error).__name__}: {error}"
        ) from error


def _parse_bool(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError("true or false")
    return value == "true"


def _parse_number(kind: type, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError("a whole number" if kind is int else "a number") from None


_PARSERS: dict[Kind, Callable[[str], Any]] = {
    "string": str,
    "int": lambda text: _parse_number(int, text),
    "float": lambda text: _parse_number(float, text),
    "bool": _parse_bool,
    "bytes": parse_bytes,
    "duration": parse_duration_ms,
    "choice": str,
}


@dataclass(frozen=True)
class Option:
    """One option of a source or a sink.

    ``name`` is matched without regard to case, as Spark does; a name that ends in ``.*`` takes every option with that
    prefix. ``default`` is written as a user would write it; ``None`` means unset. ``secret`` values are kept out of
    every log, repr, stored form and error text. ``minimum`` is checked after parsing (bytes, ms, numbers).
    ``secret_names``, for a prefix, says which of the names it takes are secret (all of them, if ``secret``).
    ``credentials`` are the names of the options to write what an address in the value must not hold: user and password.
    """

    name: str
    doc: str
    kind: Kind = "string"
    default: str | None = None
    choices: tuple[str, ...] = ()
    required: bool = False
    secret: bool = False
    minimum: float | None = None
    secret_names: Callable[[str], bool] | None = None
    credentials: tuple[str, ...] = ()

    @property
    def is_prefix(self) -> bool:
        """Whether the option stands for every name with its prefix."""
        return self.name.endswith(".*")

    def parse(self, text: str) -> Any:
        """The typed value of ``text``. Raises :class:`BadConfigurationError` that names the option."""
        try:
            value = _PARSERS[self.kind](text)
        except ValueError as error:
            shown = "its value" if self.secret else repr(text)
            raise BadConfigurationError(f"option '{self.name}': {shown} is not {error}") from None
        if self.kind == "choice":
            by_lower = {choice.lower(): choice for choice in self.choices}
            if value.lower() not in by_lower:
                near = nearest_hint(value, self.choices)
                raise BadConfigurationError(
                    f"option '{self.name}': {text!r} is not one of {', '.join(self.choices)}{near}"
                )
            value = by_lower[value.lower()]
        if self.minimum is not None and value < self.minimum:
            raise BadConfigurationError(f"option '{self.name}': {text!r} is below the least value {self.minimum:g}")
        return value


def nearest_hint(name: str, names: Iterable[str]) -> str:
    """What ends a message: ``"; did you mean 'path'?"``, with the one of ``names`` that is like ``name``; or ``""``."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f"; did you mean '{by_lower[found[0]]}'?" if found else ""


def _holds_credentials(text: str) -> bool:
    return any(":" in user or scheme.lower() not in _PLAIN_USERS for scheme, user in _USER.findall(text))


class OptionValues(Mapping[str, Any]):
    """Parsed options: typed values by declared name, without regard to case. Its repr hides secrets.

    Every declared option is present (its default, or ``None``). Options taken by a prefix declaration are in
    :meth:`with_prefix`.
    """

    def __init__(self, declared: OptionSet, texts: Mapping[str, str]) -> None:
        self._declared = declared
        self._texts = dict(texts)
        self._values: dict[str, Any] = {}
        for option in declared:
            if option.is_prefix:
                continue
            text = self._texts.get(option.name, option.default)
            self._values[option.name.lower()] = None if text is None else option.parse(text)

    def __getitem__(self, name: str) -> Any:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def is_set(self, name: str) -> bool:
        """Whether the user gave a value for ``name`` (rather than its default being used)."""
        return any(given.lower() == name.lower() for given in self._texts)

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The given options below ``prefix`` (``"s3."``), without it, as text."""
        low = prefix.lower()
        return {name[len(prefix) :]: text for name, text in self._texts.items() if name.lower().startswith(low)}

    def texts(self, *, secrets: bool) -> dict[str, str]:
        """The given options as text; without ``secrets``, only those that are safe to store and to show."""
        return {n: t for n, t in self._texts.items() if secrets or not self._declared.is_secret(n)}

    def __repr__(self) -> str:
        shown = {n: ("***" if self._declared.is_secret(n) else t) for n, t in self._texts.items()}
        return f"OptionValues({shown})"


class OptionSet(tuple[Option, ...]):
    """The declared options of one source or sink."""

    __slots__ = ()

    def __new__(cls, options: Iterable[Option] = ()) -> OptionSet:
        """An option set of ``options``; two of the same name are a ValueError."""
        built = super().__new__(cls, tuple(options))
        names = [option.name.lower() for option in built]
        if len(set(names)) != len(names):
            raise ValueError("an option is declared twice")
        return built

    def find(self, name: str) -> Option | None:
        """The declaration that takes ``name``, if any."""
        low = name.lower()
        exact = next((o for o in self if o.name.lower() == low), None)
        return exact or next((o for o in self if o.is_prefix and low.startswith(o.name[:-1].lower())), None)

    def is_secret(self, name: str) -> bool:
        """Whether the value of ``name`` must not be shown. Unknown names count as secret."""
        option = self.find(name)
        if option is None or option.secret:
            return True
        return option.secret_names is not None and option.secret_names(name)

    def parse(self, given: Mapping[str, str], *, owner: str, ignore: Iterable[str] = ()) -> OptionValues:
        """Checks and types ``given``. ``owner`` (as in "source penstock.kafka") goes into the message.

        Raises :class:`BadConfigurationError` for an unknown name (with the nearest one), a value of the wrong type, a
        user or password in the address of an option that is stored and shown, and a required option that is missing.
        Names in ``ignore`` are the engine's own and pass unseen.
        """
        skipped = {name.lower() for name in ignore}
        texts: dict[str, str] = {}
        for name, text in given.items():
            option = self.find(name)
            if option is None and name.lower() in skipped:
                continue
            if option is None:
                near = nearest_hint(name, (o.name for o in self))
                raise BadConfigurationError(f"{owner} has no option '{name}'{near}")
            if _holds_credentials(text) and not self.is_secret(name):
                where = " and ".join(f"'{one}'" for one in option.credentials)
                raise BadConfigurationError(
                    f"option '{name}' holds credentials in an address, which would be stored and shown with it: "
                    f"write them {f'as {where}' if where else 'in the options for them'}"
                )
            texts[name if option.is_prefix else option.name] = text
        missing = [o.name for o in self if o.required and o.name not in texts]
        if missing:
            raise BadConfigurationError(f"{owner} needs the option '{missing[0]}': {self.find(missing[0]).doc}")  # type: ignore[union-attr]
        return OptionValues(self, texts)
