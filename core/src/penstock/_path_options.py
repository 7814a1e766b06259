"""Which texts of a user's options are paths, as the connector declares them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from penstock._letters import destination_of
from penstock.options import DEAD_LETTER_PREFIX, OptionSet

__all__ = ["change_paths"]

_Change = Callable[[str], str]


def change_paths(
    options: Mapping[str, str], declared: OptionSet, change: _Change, undeclared: _Change | None = None
) -> dict[str, str]:
    """Returns the options with each path in them changed: also those of dead letters, and in lists of paths.

    ``undeclared`` is for the argument of ``load(...)`` where the connector does not declare it as a path: it can only
    be a local file. Default: ``change``. Raises BadConfigurationError for dead letters that can't be sent anywhere.
    """
    changed = {name: _changed(name, text, declared, change, undeclared or change) for name, text in options.items()}
    letters = destination_of(options)
    if letters is not None:
        for name in options:
            if name.lower().startswith(DEAD_LETTER_PREFIX.lower()):
                own = name[len(DEAD_LETTER_PREFIX) :]
                changed[name] = _changed(own, options[name], letters.options, change, undeclared or change)
    return changed


def _changed(name: str, text: str, declared: OptionSet, change: _Change, undeclared: _Change) -> str:
    option = declared.find(name)
    if option is None or not text:
        return text
    if option.kind == "path":
        return change(text)
    if option.kind != "paths":
        return undeclared(text) if name.lower() == "path" else text
    try:
        paths = json.loads(text)
    except ValueError:
        return text  # the connector says what is wrong with it
    return json.dumps([change(one) for one in paths]) if _is_texts(paths) else text


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
