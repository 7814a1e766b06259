"""Finds connectors: one entry point each, in the group ``penstock.connectors``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from penstock._core_range import Package
from penstock.connector import Connector
from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint

__all__ = ["InstalledConnector", "find_connector", "installed_connectors"]

GROUP = "penstock.connectors"


@dataclass(frozen=True)
class InstalledConnector:
    """An entry point with what its metadata tells before anything of it is imported.

    ``problem`` says why it can't be used, in words for the user; empty if it fits.
    """

    name: str
    distribution: str
    version: str
    requires_core: str
    problem: str
    entry_point: EntryPoint

    @property
    def format(self) -> str:
        """What goes into ``.format(...)``."""
        return f"penstock.{self.name}"

    def load(self) -> Connector:
        """Imports the plugin. Raises :class:`BadConfigurationError` if it does not fit or fails on import."""
        if self.problem:
            raise BadConfigurationError(f"connector '{self.name}' can't be used: {self.problem}")
        try:
            loaded = self.entry_point.load()
            connector = loaded()
        except Exception as error:
            raise BadConfigurationError(
                f"connector '{self.name}' ({self.distribution} {self.version}) fails on import: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(connector, Connector):
            raise BadConfigurationError(
                f"connector '{self.name}': {self.entry_point.value} is not a penstock Connector"
            )
        return connector


def installed_connectors(found: Iterable[EntryPoint] | None = None) -> list[InstalledConnector]:
    """Returns every installed connector, fitting or not, by name. Imports none of them."""
    return list(_installed_in(_places()) if found is None else _listed(found))


def _places() -> tuple[tuple[str, int], ...]:
    """Returns where packages may be, each place with a time that is another one after something was installed there."""
    return tuple((path, _changed_ns(path)) for path in sys.path)


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _installed_in(places: tuple[tuple[str, int], ...]) -> tuple[InstalledConnector, ...]:
    # Kept: the entry points of every installed package are read for it, some 200 files, and each micro-batch asks.
    return _installed()


def _installed() -> tuple[InstalledConnector, ...]:
    return _listed(entry_points(group=GROUP))


def _listed(found: Iterable[EntryPoint]) -> tuple[InstalledConnector, ...]:
    listed: dict[str, InstalledConnector] = {}
    for entry in sorted(found, key=lambda e: e.name):
        package = Package.of(entry.dist)
        problem = package.core_problem()
        if entry.name in listed and listed[entry.name].distribution != package.name:
            problem = f"{listed[entry.name].distribution} also provides it: uninstall one of the two"
        listed[entry.name] = InstalledConnector(
            entry.name, package.name, package.version, package.core_range, problem, entry
        )
    return tuple(listed.values())


def find_connector(name: str) -> InstalledConnector:
    """Returns the connector ``name``, with or without ``penstock.``; Spark does not regard the case of a format.

    Raises BadConfigurationError, with the nearest name.
    """
    short = name.lower().removeprefix("penstock.")
    # What is not found is looked for again: a package may have been listed while it was being installed.
    for look in (installed_connectors, _installed):
        all_found = look()
        for connector in all_found:
            if connector.name.lower() == short:
                return connector
    if not short.strip():
        raise BadConfigurationError(f"no connector is named; installed: {', '.join(one.name for one in all_found)}")
    near = nearest_hint(short, (connector.name for connector in all_found))
    raise BadConfigurationError(f"no connector '{short}' is installed{near or f': pip install penstock-{short}'}")
