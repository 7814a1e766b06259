"""What a query that continues from its checkpoint makes of options that have another value now."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.options._option import Option
from penstock.options._set import OptionSet, OptionValues, warn_once

__all__ = ["held_by_checkpoint"]

#: Longer values are stored as their beginning and a hash.
_LONGEST = 100
_QUOTED_OR_BLANK = re.compile(r"""('[^']*'|"[^"]*")|\s+""")


def held_by_checkpoint(values: OptionValues, before: Mapping[str, str] | None, *, owner: str) -> dict[str, str] | None:
    """Returns the options that a checkpoint is to hold, by declared name, after ``before``, which it holds now.

    They are those that do not take effect at a restart (``Option.at_restart``), as far as the user gave them; ``None``
    if none is declared so. Whatever else is in ``before`` is not looked at. Without ``before`` nothing is known of an
    earlier run: the query is new, or an earlier release wrote the checkpoint.

    Raises BadConfigurationError for a change that is refused. One that is ignored is logged as a warning, once in a
    process, and the value before it stays.
    """
    options = [option for option in values.declared if option.at_restart != "takes effect"]
    if not options:
        return None
    given = values.texts(secrets=False)
    texts = _with_defaults(values.declared, given)
    now = {option.name: _shortened(texts[option.name]) for option in options if option.name in texts}
    if before is None:
        return now
    held = {name: _shortened(text) for name, text in _with_defaults(values.declared, before).items()}
    # Where only one of the runs has such an option, and by itself, it counted in that one alone.
    counted_once = (held.keys() ^ now.keys()) - before.keys() - given.keys()
    changed = [
        one
        for one in options
        if one.name not in counted_once and _value(one, held.get(one.name)) != _value(one, now.get(one.name))
    ]
    for option in changed:
        if option.at_restart == "refused":
            raise BadConfigurationError(
                f"{owner}: {_change(option, held, now)}, and a query can't continue with another value: set it back, "
                "or start with a new checkpoint"
            )
    once = {option.name for option in options if option.at_restart == "kept once set"}
    takes_effect = set() if once & held.keys() and once & now.keys() else once
    kept = [option for option in changed if option.name not in takes_effect]
    for option in kept:
        if option.name in now:
            warn_once(
                f"{owner}: {_change(option, held, now)}, which changes nothing of what the checkpoint holds: set it "
                "back, or start with a new checkpoint"
            )
    names = {option.name for option in kept}
    return {**{n: text for n, text in now.items() if n not in names}, **{n: held[n] for n in names & held.keys()}}


def _with_defaults(declared: OptionSet, texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of a run with those of options that take the value of another one, where they count."""
    found = dict(texts)
    for option in declared:
        other = option.default_from
        if other is not None and option.name not in texts and other in texts:
            with contextlib.suppress(BadConfigurationError):  # allowed by an earlier release
                if declared.has_effect(option, texts):
                    found[option.name] = texts[other]
    return found


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}\N{HORIZONTAL ELLIPSIS} (sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"


def _value(option: Option, text: str | None) -> Any:
    """Returns what is compared: texts may be spelled in several ways."""
    text = option.default if text is None else text
    if text is None:
        return None
    try:
        value = option.parse(text)
    except BadConfigurationError:  # it was shortened, or allowed by an earlier release
        value = text
    return _plain(value, option) if isinstance(value, str) else value


def _plain(text: str, option: Option) -> Any:
    """Returns what the text says, whatever the blanks: those between quotes count."""
    text = text.strip()
    if text[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            return _folded(json.loads(text), option)
    plain = _QUOTED_OR_BLANK.sub(lambda match: match[1] or " ", text)
    return plain or option.default


def _folded(value: Any, option: Option) -> Any:
    """Returns what was JSON, with the option's words as they are declared."""
    if isinstance(value, str):
        return option.word(value) or value
    if isinstance(value, dict):
        return {key: _folded(one, option) for key, one in value.items()}
    return [_folded(one, option) for one in value] if isinstance(value, list) else value


def _change(option: Option, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    was, is_now = (repr(texts[option.name]) if option.name in texts else "not set" for texts in (before, now))
    return f"option '{option.name}' was {was} before and is {is_now} now"
