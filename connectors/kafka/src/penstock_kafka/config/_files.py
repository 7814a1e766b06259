"""The files that settings only name."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["files_of", "names_file"]

_SUFFIXES = (".location", ".file", ".keytab")


def files_of(settings: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the paths of certificates, keys and the like among settings in librdkafka's spelling.

    A client reads them when it connects: one that is kept is of no use once they are renewed.
    """
    return [path for name, path in settings if names_file(name, path)]


def names_file(name: str, value: str) -> bool:
    """Returns whether a setting of that name, with or without ``kafka.``, names a file or a directory."""
    return name.lower().endswith(_SUFFIXES) and value not in ("", "probe")
