"""Bucket assigners and rolling policies of the user's own, given as ``module:callable``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues, load_object, names_object

__all__ = ["load_extension"]


def load_extension(option: str, text: str, known: Iterable[str], values: OptionValues, kind: type) -> Any:
    """Imports ``module:callable``, calls it with the sink's options and checks that it returns a ``kind``.

    Raises BadConfigurationError that names ``option``, what is wrong, and the ``known`` names that are allowed.
    """
    if not names_object(text):
        names = ", ".join(known)
        raise BadConfigurationError(f"option '{option}': {text!r} is neither one of {names} nor module:callable")
    factory = load_object(f"option '{option}'", text)
    try:
        made = factory(values)
    except Exception as error:
        raise BadConfigurationError(f"option '{option}': {text} fails: {type(error).__name__}: {error}") from error
    if not isinstance(made, kind):
        raise BadConfigurationError(
            f"option '{option}': {text} must return a {kind.__name__}, it returned a {type(made).__name__}"
        )
    return made
