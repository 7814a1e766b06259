"""The declaration of one option."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.errors import BadConfigurationError
from penstock.options._conditions import Condition
from penstock.options._units import PARSERS, Kind, names_object

__all__ = ["AtRestart", "Mode", "Option", "connecting", "nearest_hint"]

#: How rows are read or written: once, or batch after batch. Of a record format: which of the two it does.
Mode = Literal["batch", "stream", "reading", "writing"]

_ONLY_IN: dict[Mode, str] = {
    "batch": "Batches only",
    "stream": "Streams only",
    "reading": "Reading only",
    "writing": "Writing only",
}

#: What happens to another value when a query continues from its checkpoint.
AtRestart = Literal["takes effect", "kept", "kept once set", "refused"]

_AT_RESTART: dict[AtRestart, str] = {
    "kept": "A restart keeps the first value",
    "kept once set": "A restart keeps the value once one is set",
    "refused": "A restart with another value is refused",
}


@dataclass(frozen=True)
class Option:
    """One option of a source or a sink.

    ``name`` is matched without regard to case, as Spark does; a name that ends in ``.*`` takes every option with that
    prefix. ``default`` is written as a user would write it; ``None`` means unset.
    ``default_from`` names the option whose value holds where this one is unset: at a restart, that one counts.

    Which values it takes: ``kind``, ``choices``, ``minimum`` and ``maximum`` (of bytes, ms and numbers), and
    ``check``, a function that gets the parsed value and raises ValueError with what it should have been: "a time
    zone". ``words`` are what an option that takes any text reads without regard to case, also as a value within JSON.
    ``choice_aliases`` are other spellings of choices and of words, each with the one that it stands for. ``plugins``
    returns the names of installed plugins, which are choices as well; then ``module:Class`` is taken too.

    What it needs of the others: ``required``, or ``required_with`` (it must be given if all conditions hold). ``needs``
    (conditions that must all hold for the option to take effect; a tuple among them: one of those), ``excludes``
    (conditions that must not hold) and ``only_in`` (a batch, or a stream; of a record
    format, reading or writing) refuse an option that can't take effect;
    with ``tolerated`` it is ignored with a warning. ``infers``: it says how a schema is inferred, and is ignored with a
    warning where the user gives one. ``ignored`` says why an option never takes effect, and is what the
    warning says: "a column headers is always written". ``advice`` ends the refusal: "write it into the statement".

    What else it is called: ``aliases`` mean the same for good, as Spark's own names do; ``former`` names and
    ``former_choices`` are those of earlier releases, and are accepted with a warning.

    ``connects``: it says how the system is reached, and so holds for another sink of the same system as well.

    ``at_restart`` says what happens to another value when a query continues from its checkpoint. It "takes effect";
    or it is ignored with a warning, because the checkpoint holds what the first value led to ("kept", as where a query
    starts); or so only where one was set before and one is set now ("kept once set", as where a query ends: the options
    of a set that say so are ways to say one thing); or it is "refused", because with another value the checkpoint would
    mean something else. All but the first are stored, shortened, with each offset of a source and with a sink that
    commits (one that does not has no place in the checkpoint): such an option can't be secret, nor a prefix.

    ``secret`` values are kept out of every log, repr, stored form and error text. ``secret_names``, for a prefix, says
    which of the names it takes are secret (all of them, if ``secret``). ``meaning``, for a prefix, returns what such a
    name sets: names that have some of it in common say the same thing in other words. ``names_file``, for a prefix,
    returns whether such a name, with a value, names a file of the machine that opens it. ``credentials`` are the names
    of the options to write what an address in the value must not hold: user and password.
    """

    name: str
    doc: str
    kind: Kind = "string"
    default: str | None = None
    choices: tuple[str, ...] = ()
    plugins: Callable[[], tuple[str, ...]] | None = None
    required: bool = False
    secret: bool = False
    minimum: float | None = None
    maximum: float | None = None
    check: Callable[[Any], object] | None = None
    secret_names: Callable[[str], bool] | None = None
    credentials: tuple[str, ...] = ()
    required_with: tuple[Condition, ...] = ()
    needs: tuple[Condition | tuple[Condition, ...], ...] = ()
    excludes: tuple[Condition, ...] = ()
    only_in: Mode | None = None
    tolerated: bool = False
    infers: bool = False
    advice: str = ""
    aliases: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    choice_aliases: tuple[tuple[str, str], ...] = ()
    former_choices: tuple[tuple[str, str], ...] = ()
    connects: bool = False
    at_restart: AtRestart = "takes effect"
    meaning: Callable[[str], frozenset[str]] | None = None
    names_file: Callable[[str, str], bool] | None = None
    default_from: str | None = None
    words: tuple[str, ...] = ()
    ignored: str = ""

    @property
    def is_prefix(self) -> bool:
        """Whether the option stands for every name with its prefix."""
        return self.name.endswith(".*")

    @property
    def names(self) -> tuple[str, ...]:
        """The option's name, and then what else it is called."""
        return (self.name, *self.aliases, *self.former)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Every condition of the declaration."""
        needs = [one for need in self.needs for one in (need if isinstance(need, tuple) else (need,))]
        return (*self.required_with, *needs, *self.excludes)

    def takes(self, name: str) -> bool:
        """Returns whether a user who writes ``name`` means this option, by one of its names."""
        low = name.lower()
        if self.is_prefix:
            return low.startswith(self.name[:-1].lower())
        return any(low == own.lower() for own in self.names)

    def is_file(self, name: str, text: str) -> bool:
        """Returns whether a user who writes ``name`` with ``text`` names a file of the machine that opens it."""
        return self.kind == "file" or (self.names_file is not None and self.names_file(name, text))

    def spelled(self, name: str) -> str:
        """``name`` in the letters of the declaration: Spark passes names on in lower case."""
        return next((own for own in self.names if own.lower() == name.lower()), name)

    def parse(self, text: str) -> Any:
        """Returns the typed value of ``text``. Raises :class:`BadConfigurationError` that names the option."""
        try:
            value = PARSERS[self.kind](text)
            if self.kind == "choice":
                value = self._choice(text)
            elif self.words:
                value = self.word(text) or value
            if self.check is not None:
                self.check(value)
        except ValueError as error:
            shown = "its value" if self.secret else repr(text)
            raise BadConfigurationError(f"option '{self.name}': {shown} is not {error}") from None
        if self.minimum is not None and value < self.minimum:
            raise BadConfigurationError(
                f"option '{self.name}': {text!r} is below the least value {_number(self.minimum)}"
            )
        if self.maximum is not None and value > self.maximum:
            raise BadConfigurationError(
                f"option '{self.name}': {text!r} is above the largest value {_number(self.maximum)}"
            )
        return value

    def word(self, text: str) -> str | None:
        """Returns the choice or the word that ``text`` is in any case, as declared; ``None`` if it is none."""
        known = {name.lower(): name for name in (*self.choices, *self.words)}
        others = {other.lower(): name for other, name in (*self.choice_aliases, *self.former_choices)}
        value = text.strip().lower()
        return known.get(value) or others.get(value)

    def _choice(self, text: str) -> str:
        value = text.strip().lower()
        found = self.word(text)
        if found is not None:
            return found
        if self.plugins is not None and names_object(text.strip()):
            return text.strip()
        every = self.all_choices()
        if self.plugins is not None and value in map(str.lower, every):
            return next(name for name in every if name.lower() == value)
        more = ", or module:Class" if self.plugins is not None else ""
        raise ValueError(f"one of {', '.join(every)}{more}{nearest_hint(text, every)}")

    def all_choices(self) -> tuple[str, ...]:
        """Returns the choices, and the names of plugins that are installed."""
        more = self.plugins() if self.plugins is not None else ()
        return (*self.choices, *(name for name in more if name not in self.choices))

    def rules(self) -> list[str]:
        """Returns what the option needs and excludes, what happens to it at a restart, and what else it is called, as
        sentences for a reference page.
        """
        said = []
        needs = [" or ".join(map(_code, need)) if isinstance(need, tuple) else _code(need) for need in self.needs]
        if needs:
            said.append(f"Only with {' and '.join(needs)}")
        if self.only_in:
            said.append(_ONLY_IN[self.only_in])
        if self.infers:
            said.append("Only where no schema is given")
        if self.excludes:
            said.append(f"Not with {' or '.join(map(_code, self.excludes))}")
        if self.required_with:
            said.append(f"Needed with {' and '.join(map(_code, self.required_with))}")
        if self.at_restart in _AT_RESTART:
            said.append(_AT_RESTART[self.at_restart])
        if self.aliases:
            said.append(f"Also called {' or '.join(self.aliases)}")
        if self.words:
            said.append(f"Without regard to case: {', '.join(self.words)}")
        if self.choice_aliases:
            said.append("Also " + ", ".join(f"{other} for {name}" for other, name in self.choice_aliases))
        return said


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _code(condition: Condition) -> str:
    return str(condition).replace("'", "")


def connecting(options: Iterable[Option]) -> tuple[Option, ...]:
    """Returns ``options``, each as one that says how the system is reached."""
    return tuple(replace(option, connects=True) for option in options)


def nearest_hint(name: str, names: Iterable[str]) -> str:
    """Returns what ends a message: ``"; did you mean 'path'?"``, with the one of ``names`` that is like ``name``; or
    ``""``.
    """
    by_lower = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f"; did you mean '{by_lower[found[0]]}'?" if found else ""
