"""What a user gave, checked against what a source or a sink declares."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.options._conditions import Condition
from penstock.options._option import Mode, Option, nearest_hint
from penstock.options._secrets import credentials_in
from penstock.printable import get_logger

__all__ = ["OptionProblem", "OptionSet", "OptionValues", "complete_options", "warn_once"]

_log = get_logger(__name__)
#: Warnings that this process has given. Spark plans one query in several calls, and each parses the options.
_warned: set[str] = set()


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

    @property
    def declared(self) -> OptionSet:
        """The declarations that the values were checked against."""
        return self._declared

    def is_set(self, name: str) -> bool:
        """Returns whether the user gave a value for ``name`` (rather than its default being used); ``s3.*``: for any of
        it.
        """
        if name.endswith(".*"):
            return bool(self.with_prefix(name[:-1]))
        return any(given.lower() == name.lower() for given in self._texts)

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Returns the given options below ``prefix`` (``"s3."``), without it, as text."""
        low = prefix.lower()
        return {name[len(prefix) :]: text for name, text in self._texts.items() if name.lower().startswith(low)}

    def texts(self, *, secrets: bool) -> dict[str, str]:
        """Returns the given options as text, under their declared names; without ``secrets``, only those that are safe
        to store and to show.
        """
        return {n: t for n, t in self._texts.items() if secrets or not self._declared.is_secret(n)}

    def warn_of_given_schema(self, owner: str) -> None:
        """Warns of the options that say how a schema is inferred: the user has given one."""
        given = [one.name for one in self._declared if one.infers and self.is_set(one.name) and not _is_off(one, self)]
        if given:
            shown = ", ".join(f"'{name}'" for name in given)
            each = "it takes" if len(given) == 1 else "each takes"
            warn_once(f"{owner} ignores {shown}: {each} effect only where no schema is given")

    def __repr__(self) -> str:
        shown = {n: ("***" if self._declared.is_secret(n) else t) for n, t in self._texts.items()}
        return f"OptionValues({shown})"


@dataclass(frozen=True)
class OptionProblem:
    """What is wrong with options that a user gave: ``message``, in one line.

    ``name`` is the option as the user wrote it; ``None`` if something is missing. ``is_about_value`` is false where
    the name itself is wrong. A problem that ``is_warning`` leaves the options usable.
    """

    message: str
    name: str | None = None
    is_about_value: bool = True
    is_warning: bool = False


class OptionSet(tuple[Option, ...]):
    """The declared options of one source or sink.

    ``instead``: names that users bring along from another connector to the same system, in lower case, with what to do
    instead. They are refused with that advice.
    """

    instead: Mapping[str, str]

    def __new__(cls, options: Iterable[Option] = (), *, instead: Mapping[str, str] | None = None) -> OptionSet:
        """Returns an option set of ``options``.

        Raises ValueError for two of the same name, also in ``instead``, for a condition on an option that is not among
        them, and for a secret or a prefix that a checkpoint would have to hold (``at_restart``).
        """
        built = super().__new__(cls, tuple(options))
        built.instead = {name.lower(): advice for name, advice in (instead or {}).items()}
        names = [name.lower() for option in built for name in option.names]
        if len({*names, *built.instead}) != len(names) + len(built.instead):
            raise ValueError("an option is declared twice")
        for option in built:
            if option.at_restart != "takes effect" and (option.secret or option.is_prefix):
                raise ValueError(
                    f"option '{option.name}' is {option.at_restart} at a restart: no secret or prefix can be"
                )
            for condition in option.conditions:
                if condition.option.lower() not in names:
                    raise ValueError(f"option '{option.name}' has a condition on '{condition.option}', which is none")
        return built

    def find(self, name: str) -> Option | None:
        """Returns the declaration that takes ``name``, if any."""
        of_prefix: Option | None = None
        for option in self:
            if option.takes(name):
                if not option.is_prefix:
                    return option
                of_prefix = of_prefix or option
        return of_prefix

    def is_secret(self, name: str) -> bool:
        """Returns whether the value of ``name`` must not be shown. Unknown names count as secret."""
        option = self.find(name)
        if option is None or option.secret:
            return True
        return option.secret_names is not None and option.secret_names(name)

    def has_effect(self, option: Option, texts: Mapping[str, str]) -> bool:
        """Returns whether ``option`` counts with ``texts``, of which those that are none of the set do not count.

        Raises BadConfigurationError for a text that can't be read.
        """
        return _why_without_effect(option, self._values(texts), None) is None

    def completed(self, given: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
        """Returns ``given`` with those of ``more`` that go with it: what the user says in ``given`` takes precedence,
        under whichever name.

        Left out is what ``given`` sets in other words, what it excludes, and what has no effect with it. What ``more``
        lacks by itself stays, to be reported.
        """
        rest = {name: text for name, text in more.items() if not any(self._say_the_same(name, one) for one in given)}
        with contextlib.suppress(BadConfigurationError):  # found again, and reported, by those who parse the result
            alone = self._values(more)
            incomplete = {name for name in rest if self._lacks_another(name, alone)}
            odd = list(rest)
            while odd:
                values = self._values({**rest, **given})
                odd = [
                    name
                    for name in rest
                    if self._is_excluded(name, values) or (name not in incomplete and self._lacks_another(name, values))
                ]
                for name in odd:
                    del rest[name]
        return {**rest, **given}

    def _values(self, texts: Mapping[str, str]) -> OptionValues:
        known = {self._declared_name(name): text for name, text in texts.items() if self.find(name) is not None}
        return OptionValues(self, known)

    def _declared_name(self, name: str) -> str:
        option = self.find(name)
        return name if option is None or option.is_prefix else option.name

    def _say_the_same(self, name: str, other: str) -> bool:
        option = self.find(name)
        if option is None or not option.is_prefix or option.meaning is None:
            return self._declared_name(name).lower() == self._declared_name(other).lower()
        return self.find(other) is option and not option.meaning(name).isdisjoint(option.meaning(other))

    def _is_excluded(self, name: str, values: OptionValues) -> bool:
        option = self.find(name)
        if option is None:
            return False
        others = (other for other in self if values.is_set(other.name))
        return any(one.holds(values) for one in option.excludes) or any(
            one.option == option.name and one.holds(values) for other in others for one in other.excludes
        )

    def _lacks_another(self, name: str, values: OptionValues) -> bool:
        """Returns whether the option has no effect, or needs another one that is not there."""
        option = self.find(name)
        if option is None:
            return False
        return _why_without_effect(option, values, None) is not None or any(
            any(one.option == option.name and not one.negated for one in other.required_with)
            and any(_missing(other, values, ""))
            for other in self
            if not other.is_prefix
        )

    def parse(
        self, given: Mapping[str, str], *, owner: str, ignore: Iterable[str] = (), mode: Mode | None = None
    ) -> OptionValues:
        """Checks and types ``given``. ``owner`` (as in "source penstock.kafka") goes into the message.

        Raises :class:`BadConfigurationError` with the first of :meth:`problems`. Warnings are logged, each once in a
        process.
        """
        values, problems = self._checked(given, owner, ignore, mode)
        for problem in problems:
            if not problem.is_warning:
                raise BadConfigurationError(problem.message)
        for problem in problems:
            warn_once(problem.message)
        assert values is not None
        return values

    def problems(
        self, given: Mapping[str, str], *, owner: str, ignore: Iterable[str] = (), mode: Mode | None = None
    ) -> list[OptionProblem]:
        """Everything that is wrong with ``given``; names in ``ignore`` are the engine's own and pass unseen.

        An unknown name (with the nearest one), one option under two of its names, a value of the wrong type, a user or
        password in the address of an option that is stored and shown, an option that is missing. Once these are
        right: an option that can't take effect with the others, or in ``mode`` (``None``: it is not known).
        """
        return self._checked(given, owner, ignore, mode)[1]

    def _checked(
        self, given: Mapping[str, str], owner: str, ignore: Iterable[str], mode: Mode | None
    ) -> tuple[OptionValues | None, list[OptionProblem]]:
        skipped = {name.lower() for name in ignore}
        texts: dict[str, str] = {}
        written: dict[str, str] = {}
        #: By option, as the user wrote it.
        given_as: dict[str, list[str]] = {}
        problems: list[OptionProblem] = []
        for name, text in given.items():
            option = self.find(name)
            if option is None:
                if name.lower() not in skipped:
                    problems.append(OptionProblem(f"{owner} has no option '{name}'{self._hint(name)}", name, False))
                continue
            key = name if option.is_prefix else option.name
            if key in texts and texts[key] != text:
                first, second = option.spelled(written[key]), option.spelled(name)
                both = f"'{first}' and '{second}'" if first != second else f"'{written[key]}' and '{name}'"
                problems.append(OptionProblem(f"options {both} are the same: leave one out", name, False))
            problems += self._value_problems(option, name, text)
            problems += _former(option, owner, name, text)
            if key not in texts:
                given_as.setdefault(option.name, []).append(name)
            texts[key], written[key] = text, name
        for option in self:
            if option.required and not texts.get(option.name, "").strip():
                problems.append(OptionProblem(f"{owner} needs the option '{option.name}': {option.doc}"))
        if any(not problem.is_warning for problem in problems):
            return None, problems
        values = OptionValues(self, texts)
        return values, [*problems, *self._rule_problems(values, given_as, owner, mode)]

    def _hint(self, unknown: str) -> str:
        if advice := self.instead.get(unknown.lower()):
            return f": {advice}"
        return nearest_hint(unknown, (name for option in self for name in (option.name, *option.aliases)))

    def _value_problems(self, option: Option, name: str, text: str) -> Iterator[OptionProblem]:
        if credentials_in(text) and not self.is_secret(name):
            where = " and ".join(f"'{one}'" for one in option.credentials)
            yield OptionProblem(
                f"option '{name}' holds credentials in an address, which would be stored and shown with it: "
                f"write them {f'as {where}' if where else 'in the options for them'}",
                name,
            )
            return
        if option.is_prefix:
            return
        try:
            option.parse(text)
        except BadConfigurationError as error:
            yield OptionProblem(str(error), name)

    def _rule_problems(
        self, values: OptionValues, given_as: Mapping[str, list[str]], owner: str, mode: Mode | None
    ) -> Iterator[OptionProblem]:
        ignored: dict[str, list[tuple[Option, str]]] = {}
        for option in self:
            yield from _missing(option, values, owner)
            given = given_as.get(option.name, [])
            if not given or _is_off(option, values):
                continue
            idle = _why_without_effect(option, values, mode)
            if option.ignored:
                ignored.setdefault(option.ignored, []).extend((option, name) for name in given)
            elif idle and option.tolerated:
                ignored.setdefault(idle.reason, []).extend((option, name) for name in given)
            elif idle:
                shown = option.spelled(given[0])
                yield OptionProblem(f"option '{shown}' {idle.reason}: {option.advice or idle.advice}", given[0])
            for condition in option.excludes:
                if condition.holds(values):
                    advice = option.advice or "leave one of them out"
                    shown = option.spelled(given[0])
                    yield OptionProblem(
                        f"option '{shown}' can't be used with {condition.shown(values)}: {advice}", given[0]
                    )
        for reason, without_effect in ignored.items():
            shown = ", ".join(f"'{option.spelled(name)}'" for option, name in without_effect)
            each = "" if without_effect[0][0].ignored else "it " if len(without_effect) == 1 else "each "
            yield OptionProblem(f"{owner} ignores {shown}: {each}{reason}", without_effect[0][1], is_warning=True)


def complete_options(given: Mapping[str, str], defaults: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, str]:
    """Returns ``given`` with the ``defaults`` that hold: each has a value, and the names of options that replace it."""
    names = {name.lower() for name in given}
    added = {
        name: value
        for name, (value, others) in defaults.items()
        if not names & {one.lower() for one in (name, *others)}
    }
    return {**added, **given}


def warn_once(message: str) -> None:
    """Logs a warning, unless this process has given it before."""
    if message not in _warned:
        _warned.add(message)
        _log.warning("%s", message)


def _former(option: Option, owner: str, name: str, text: str) -> Iterator[OptionProblem]:
    """Warnings of names and values that were renamed."""
    if any(name.lower() == former.lower() for former in option.former):
        shown = option.spelled(name)
        yield OptionProblem(f"{owner}: option '{shown}' is called '{option.name}' now", name, False, True)
    for former, choice in option.former_choices:
        if text.strip().lower() == former.lower():
            yield OptionProblem(
                f"{owner}: {option.name}={former} is called {option.name}={choice} now", name, is_warning=True
            )


def _is_off(option: Option, values: OptionValues) -> bool:
    """Returns whether the user switches off what is off by default: that decides nothing."""
    if option.is_prefix or option.default not in ("false", "off", "none"):
        return False
    return bool(values[option.name] == option.parse(option.default))


def _missing(option: Option, values: OptionValues, owner: str) -> Iterator[OptionProblem]:
    conditions = option.required_with
    if not conditions or not all(c.holds(values) for c in conditions):
        return
    value = values[option.name]
    if value is not None and str(value).strip():
        return
    others = [condition.option for condition in conditions if condition.negated and not condition.values]
    if len(others) == len(conditions):
        *first, last = (f"'{name}'" for name in (option.name, *others))
        yield OptionProblem(f"{owner} needs the option {', '.join(first)} or {last}")
        return
    beside = " and ".join(condition.shown(values) for condition in conditions)
    yield OptionProblem(f"option {beside} needs the option '{option.name}': {option.doc}")


@dataclass(frozen=True)
class _WithoutEffect:
    """Why an option has none, and what to do."""

    reason: str
    advice: str = "leave it out, or set that as well"


def _why_without_effect(
    option: Option, values: OptionValues, mode: Mode | None, above: frozenset[str] = frozenset()
) -> _WithoutEffect | None:
    """``above``: options that need this one, whose own needs are being looked at."""
    if option.only_in and mode and mode != option.only_in:
        a = "a " if mode in ("batch", "stream") else ""
        reason = f"takes effect only in {a}{option.only_in}, and this is {a}{mode}"
        return _WithoutEffect(reason, "leave it out")
    for need in option.needs:
        either = need if isinstance(need, tuple) else (need,)
        met = [condition for condition in either if condition.holds(values)]
        wanted = " or ".join(condition.shown(values) for condition in met or either)
        if not met and all(condition.negated and not condition.values for condition in either):
            others = " and ".join(f"'{condition.option}'" for condition in either)
            return _WithoutEffect(f"has no effect with {others}", "leave one of them out")
        if not met:
            return _WithoutEffect(f"takes effect only with {wanted}{_found(either[0].option, values)}")
        # What has no effect itself can't give an effect to another option.
        idle = [_without_effect_itself(condition, values, mode, above | {option.name}) for condition in met]
        if all(idle) and idle[0]:
            return _WithoutEffect(f"takes effect only with {wanted}, which {idle[0].reason}", idle[0].advice)
    return None


def _without_effect_itself(
    condition: Condition, values: OptionValues, mode: Mode | None, above: frozenset[str]
) -> _WithoutEffect | None:
    other = values.declared.find(condition.option)
    if condition.negated or other is None or other.name in above or not values.is_set(condition.option):
        return None
    return _why_without_effect(other, values, mode, above)


def _found(name: str, values: OptionValues) -> str:
    value = values.get(name)
    return "" if value is None or isinstance(value, bool) else f", and {name} is {value}"
