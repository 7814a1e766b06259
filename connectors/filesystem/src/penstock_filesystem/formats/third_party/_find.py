"""From a name to a format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues, load_object
from penstock_filesystem.formats.third_party._contract import FileFormat

__all__ = ["installed_formats", "load_format"]

GROUP = "penstock.filesystem.formats"
_QUOTED = re.compile(r"'([\w.]+)'")

MadeT = TypeVar("MadeT")


def installed_formats() -> tuple[str, ...]:
    """Returns the names of the formats that installed packages bring."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_format(
    name: str, options: Mapping[str, str], make: Callable[[FileFormat, OptionValues], MadeT]
) -> tuple[MadeT, OptionValues]:
    """Returns what ``make`` returns for a format and its parsed options, with these.

    ``name`` is that of an entry point, or ``module:Class``. Raises BadConfigurationError, which calls options as the
    user has written them, for what is no format, for options that it does not take, and as ``make`` does.
    """
    references = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    reference = references.get(name, name)
    found = load_object("option 'format'", reference)
    if not (isinstance(found, type) and issubclass(found, FileFormat)):
        raise BadConfigurationError(f"option 'format': {reference} is not a subclass of FileFormat")
    try:
        values = found.options.parse(options, owner=f"format {name}")
        return make(found(), values), values
    except BadConfigurationError as error:
        known = {one.lower() for one in (*options, *(option.name for option in found.options))}
        text = _QUOTED.sub(lambda m: f"'format.{m[1]}'" if m[1].lower() in known else m[0], str(error))
        where = "" if "'format." in text else "option 'format': "
        raise BadConfigurationError(where + text) from error.__cause__
