"""Combinations of declared options, and whether each option of one takes effect: it is seen in what is made of them."""

from __future__ import annotations

import enum
import functools
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa

from penstock.errors import BadConfigurationError, RetriableError
from penstock.options import DEAD_LETTER_OPTIONS, OF_THE_ENGINE, Condition, Mode, Option, OptionSet, OptionValues
from penstock.storage import STORAGE_OPTIONS

__all__ = ["OptionCases", "shape"]
_T = TypeVar("_T")
#: Chooses one of some values: of a random number generator, or of a library that shrinks what it chose.
Choose = Callable[[Sequence[_T]], _T]
_MOST_TRIES = 12
#: How often something is made again if its system does not answer in time.
_MOST_REPEATS = 4


class _Unreachable(str):
    """The text of a refusal by a system that can't be reached, or does not answer in time."""


@dataclass(frozen=True)
class OptionCases:
    """Combinations of the options of one side of a connector.

    ``make`` makes the source or the sink. ``given`` are options that work. ``examples`` are values of options whose
    declaration does not say which texts they take; those of a prefix are written ``name=value``. What is made may hold
    objects of the types in ``opaque``: whether they differ does not count. ``beside`` are options that an option needs
    without declaring it.
    """

    declared: OptionSet
    make: Callable[[OptionValues], Any]
    given: Mapping[str, str]
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    opaque: tuple[type, ...] = ()
    beside: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def modes(self, option: Option) -> list[Mode]:
        """Returns the modes in which the option, and what it needs, can have an effect."""
        only: set[Mode | None] = {option.only_in}
        for need in option.needs:
            if isinstance(need, tuple) or need.negated:
                continue
            needed = self.declared.find(need.option)
            if needed is not None:
                on = not need.values or (needed.default or "").lower() not in {(v or "").lower() for v in need.values}
                only |= {needed.only_in} if on else set()
        modes: list[Mode] = ["batch", "stream"]
        return [mode for mode in modes if only <= {None, mode}]

    def texts(self, option: Option) -> list[tuple[str, str]]:
        """Returns names and values that mean something else than to leave the option out."""
        known = self.examples.get(option.name)
        if option.is_prefix:
            pairs = [one.partition("=") for one in known or ["x=7"]]
            return [(option.name[:-1] + name, value) for name, _, value in pairs]
        default = None if option.default is None else option.parse(option.default)
        found = []
        for text in known if known is not None else _texts_of(option):
            try:
                is_default = option.parse(text) == default
            except BadConfigurationError:
                continue
            if not is_default:
                found.append((option.name, text))
        return found

    def least(self, option: Option, mode: Mode) -> dict[str, str]:
        """Returns the option with what it needs: a combination that is accepted, if there is one."""
        name, text = self.texts(option)[0]
        texts = self._without(self.given, option) | {name: text} | dict(self.beside.get(option.name, {}))
        for _ in range(_MOST_TRIES):
            values = self._values(texts)
            changed = next(self._corrections(texts, values, option), None)
            if changed is None or changed == texts:
                break
            texts = changed
        return texts

    def drawn(self, choose: Choose[Any], most: int = 5) -> dict[str, str]:
        """Returns the given options with up to ``most`` others, whether they go together or not."""
        texts = dict(self.given)
        for _ in range(choose(range(1, most + 1))):
            option = choose(list(self.declared))
            pairs = self.texts(option)
            if not pairs:
                continue
            name, text = choose(pairs)
            texts = self._without(texts, option) | {name: text}
        if choose([True, True, False]):  # mostly such as are accepted
            texts = self._completed(texts)
        return texts

    def shrug(self, texts: Mapping[str, str], mode: Mode) -> str | None:
        """Returns what is wrong with how the options are taken; ``None`` if nothing is.

        They are refused in at most two lines that name one of them; or each of them makes a difference to what is
        made, or is warned of.
        """
        made = self._outcome(texts, mode)
        if isinstance(made, str):
            own = [name for name in texts if name.lower() in made.lower()]
            return None if own and made.count("\n") < 2 else f"refused without naming an option: {made}"
        again = self._outcome(texts, mode)
        for _ in range(_MOST_REPEATS):
            if isinstance(again, _Unreachable):  # a timeout that was drawn may be just long enough, or not
                again = self._outcome(texts, mode)
        if isinstance(again, _Unreachable):
            return None  # a busy machine answers late: nothing can be compared
        if again != made:
            return "what is made of the same options twice differs"
        problems = self.declared.problems(texts, owner="the options", mode=mode)
        warned = " ".join(problem.message for problem in problems if problem.is_warning)
        for name, text in texts.items():
            option = self.declared.find(name)
            if option is None or option in STORAGE_OPTIONS or self._is_default(option, name, text):
                continue  # those of stores also open the query's checkpoint
            if f"'{option.spelled(name)}'" in warned:
                continue
            rest = {other: value for other, value in texts.items() if other != name}
            if self._outcome(rest, mode) == made and not self._counts(option, name, texts, mode, made):
                return f"option '{name}' makes no difference"
        return None

    def is_accepted(self, texts: Mapping[str, str], mode: Mode) -> bool:
        """Returns whether the options are neither refused nor ignored with a warning."""
        return not self.declared.problems(texts, owner="the options", mode=mode) and not isinstance(
            self._outcome(texts, mode), str
        )

    def is_the_same_in_both_modes(self, texts: Mapping[str, str]) -> bool:
        """Returns whether a batch and a stream are made of the options alike."""
        return bool(self._outcome(texts, "batch") == self._outcome(texts, "stream"))

    def are_the_same(self, texts: Mapping[str, str], others: Mapping[str, str], mode: Mode) -> bool:
        """Returns whether the same is made of the options as of ``others``."""
        return bool(self._outcome(texts, mode) == self._outcome(others, mode))

    def refusal(self, texts: Mapping[str, str], mode: Mode) -> str:
        """Returns why the options are not accepted."""
        outcome = self._outcome(texts, mode)
        problems = self.declared.problems(texts, owner="the options", mode=mode)
        return outcome if isinstance(outcome, str) else "; ".join(problem.message for problem in problems)

    def _outcome(self, texts: Mapping[str, str], mode: Mode) -> Any:
        """The text of the refusal, or the shape of what is made."""
        try:
            values = self.declared.parse(texts, owner="the options", mode=mode)
            of_engine = [one for one in self.declared if one.name in OF_THE_ENGINE or one in DEAD_LETTER_OPTIONS]
            taken = [values.with_prefix(one.name[:-1]) if one.is_prefix else values[one.name] for one in of_engine]
            return [shape(self.make(values), self.opaque), *taken]
        except BadConfigurationError as error:
            return str(error)
        except RetriableError as error:  # without its address, a server can't be reached
            return _Unreachable(error)

    def _is_default(self, option: Option, name: str, text: str) -> bool:
        if option.is_prefix or option.default is None:
            return False
        return bool(option.parse(text) == option.parse(option.default))

    def _counts(self, option: Option, name: str, texts: Mapping[str, str], mode: Mode, made: Any) -> bool:
        """Returns whether another value makes a difference: then this one only says what holds anyway."""
        others = [text for other, text in self.texts(option) if other == name]
        return any(self._outcome({**texts, name: text}, mode) != made for text in others)

    def _without(self, texts: Mapping[str, str], option: Option) -> dict[str, str]:
        return {name: text for name, text in texts.items() if self.declared.find(name) is not option}

    def _values(self, texts: Mapping[str, str]) -> OptionValues:
        return OptionValues(self.declared, {self._declared_name(name): text for name, text in texts.items()})

    def _declared_name(self, name: str) -> str:
        option = self.declared.find(name)
        return name if option is None or option.is_prefix else option.name

    def _completed(self, texts: Mapping[str, str]) -> dict[str, str]:
        current = dict(texts)
        for _ in range(_MOST_TRIES):
            changed = next(self._corrections(current, self._values(current), None), None)
            if changed is None or changed == current:
                break
            current = changed
        return current

    def _corrections(
        self, texts: dict[str, str], values: OptionValues, wanted: Option | None
    ) -> Iterator[dict[str, str]]:
        """Combinations with one rule more that holds. ``wanted`` stays as it is."""
        present = [self.declared.find(name) for name in texts]
        for option in self.declared:
            if option not in present:
                if option.required_with and all(one.holds(values) for one in option.required_with):
                    for name, text in self.texts(option)[:1]:
                        yield {**texts, name: text}
                continue
            for need in option.needs:
                either = need if isinstance(need, tuple) else (need,)
                if not any(one.holds(values) for one in either):
                    yield from self._made_true(texts, either[0], True)
            for one in option.excludes:
                if one.holds(values):
                    other = self.declared.find(one.option)
                    if other is wanted:
                        yield self._without(texts, option)
                    yield from self._made_true(texts, one, False)

    def _made_true(self, texts: dict[str, str], condition: Condition, wanted: bool) -> Iterator[dict[str, str]]:
        """Combinations with another value of the condition's option: first one by which it holds, or does not."""
        option = self.declared.find(condition.option)
        assert option is not None
        rest = self._without(texts, option)
        named = [value or "" for value in condition.values]
        if wanted != condition.negated:
            pairs = [(option.name, named[0])] if named else self.texts(option)
        else:
            pairs = [pair for pair in self.texts(option) if named and pair[1].lower() not in map(str.lower, named)]
            if not named or (not option.required and (option.default or "").lower() not in map(str.lower, named)):
                yield rest
        yield from ({**rest, name: text} for name, text in pairs[:1])


def _texts_of(option: Option) -> list[str]:
    least = option.minimum or 0
    numbers = [n for n in (least, least + 1, least + 5, 7, 4097) if n >= least and n <= (option.maximum or n)]
    return {
        "bool": ["true", "false"],
        "choice": list(option.choices),
        "int": [str(int(n)) for n in numbers],
        "float": [str(n) for n in numbers],
        "bytes": [f"{int(n)}b" for n in numbers],
        "duration": [f"{int(n)}ms" for n in numbers],
        "string": ["x", "other"],
        "path": ["x", "/other"],
        "file": ["x", "/other"],
        "column": ["x", "other"],
        "columns": ["x", "x,other"],
        "paths": ['["x"]', '["x", "/other"]'],
    }[option.kind]


def shape(value: Any, opaque: tuple[type, ...], seen: Mapping[int, int] = MappingProxyType({})) -> Any:
    """Returns what an object holds, as tuples and texts that can be compared; an object within itself is a number."""
    if value is None or isinstance(value, str | bytes | int | float | bool | enum.Enum):
        return repr(value)
    if opaque and isinstance(value, opaque):
        return type(value).__name__
    if id(value) in seen:
        return seen[id(value)]
    seen = {**seen, id(value): len(seen)}
    of = functools.partial(shape, opaque=opaque, seen=seen)
    if isinstance(value, OptionValues):
        return tuple(sorted(value.texts(secrets=True).items()))
    if isinstance(value, Mapping):
        return tuple(sorted((repr(of(key)), repr(of(one))) for key, one in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(of, value))
    if isinstance(value, set | frozenset):
        return tuple(sorted(repr(of(one)) for one in value))
    if isinstance(value, functools.partial):
        return ("partial", of(value.func), of(value.args), of(value.keywords))
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        closed = getattr(value, "__closure__", None) or ()
        return (f"{value.__module__}.{value.__qualname__}", *(of(cell.cell_contents) for cell in closed))
    if isinstance(value, types.MethodType):
        return (value.__name__, of(value.__self__))
    if isinstance(value, pa.Schema | pa.DataType | pa.Field | re.Pattern):
        return str(value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    if not held:
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return (type(value).__name__, *((name, of(one)) for name, one in sorted(held.items())))
