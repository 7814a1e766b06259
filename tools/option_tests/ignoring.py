"""Makes one option be ignored: what the user gave for it is not there when the options are parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from option_tests.declared import Declared
from penstock.options import OptionSet, OptionValues

__all__ = ["ignored"]


@contextmanager
def ignored(one: Declared) -> Iterator[None]:
    """While it is open, options like those that ``one`` is among are parsed without it. In this process only."""
    original: Any = OptionValues.__init__
    names = {option.name for option in one.among}

    def without(self: OptionValues, declared: OptionSet, texts: Mapping[str, str]) -> None:
        if {option.name for option in declared} == names:
            texts = {name: text for name, text in texts.items() if declared.find(name) is not one.option}
        original(self, declared, texts)

    OptionValues.__init__ = without  # type: ignore[method-assign]
    try:
        yield
    finally:
        OptionValues.__init__ = original  # type: ignore[method-assign]
