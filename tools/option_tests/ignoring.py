"""Makes one option be ignored: what the user gave for it is not there when the options are parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from option_tests.declared import Declared
from penstock.options import DEAD_LETTER_OPTIONS, OF_THE_ENGINE, OptionSet, OptionValues

__all__ = ["ignored"]


@contextmanager
def ignored(one: Declared) -> Iterator[None]:
    """While it is open, options like those that ``one`` is among are parsed without it. In this process only.

    Tests also parse the options of the connector alone, without those that the engine adds.
    """
    original: Any = OptionValues.__init__
    names = _own_names(one.among)

    def without(self: OptionValues, declared: OptionSet, texts: Mapping[str, str]) -> None:
        if _own_names(declared) == names:
            texts = {name: text for name, text in texts.items() if declared.find(name) != one.option}
        original(self, declared, texts)

    OptionValues.__init__ = without  # type: ignore[method-assign]
    try:
        yield
    finally:
        OptionValues.__init__ = original  # type: ignore[method-assign]


def _own_names(declared: OptionSet) -> set[str]:
    of_the_engine = OF_THE_ENGINE | {option.name for option in DEAD_LETTER_OPTIONS}
    return {option.name for option in declared if option.name not in of_the_engine}
