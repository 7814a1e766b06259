"""From a name to a format."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues, load_object
from penstock_filesystem.formats.own._contract import FileFormat

__all__ = ["find_format", "installed_formats"]

GROUP = "penstock.filesystem.formats"


def installed_formats() -> tuple[str, ...]:
    """Returns the names of the formats that installed packages bring."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def find_format(name: str, options: Mapping[str, str]) -> tuple[FileFormat, OptionValues]:
    """Returns a format with its own options, parsed: one of an entry point, or ``module:Class``.

    Raises BadConfigurationError for options that it does not know, and for what is no format.
    """
    references = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    reference = references.get(name, name)
    found = load_object("option 'format'", reference)
    if not (isinstance(found, type) and issubclass(found, FileFormat)):
        raise BadConfigurationError(f"option 'format': {reference} is not a subclass of FileFormat")
    return found(), found.options.parse(options, owner=f"format {name}")
