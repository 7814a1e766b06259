"""Paths without a scheme are on the default file system of Spark (``fs.defaultFS``), as Spark has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from penstock._path_options import change_paths
from penstock.errors import BadConfigurationError
from penstock.options import OptionSet
from penstock.printable import get_logger
from penstock.storage import has_scheme

__all__ = ["LOCAL", "Home"]

_log = get_logger("penstock")
#: File systems that are mounted where Spark is, so that Spark's path is that of a local file.
_MOUNTED = ("", "file", "dbfs")


class Home:
    """Where a session's paths without a scheme are. Picklable: data source classes carry it to other processes.

    ``directory`` is an address, what relative paths are below; empty for the local disk, with each process's own
    working directory.
    """

    def __init__(self, directory: str = "", *, knows_relative: bool = True) -> None:
        self._directory = directory.rstrip("/")
        self._knows_relative = knows_relative

    @classmethod
    def of(cls, context: Any, default: str) -> Home:
        """Returns that of a Spark context; over Spark Connect (None), ``default`` is ``spark.hadoop.fs.defaultFS``."""
        if context is None:
            return cls("" if urlsplit(default).scheme in _MOUNTED else default, knows_relative=False)
        settings = context._jsc.hadoopConfiguration()
        default = str(settings.get("fs.defaultFS") or "")
        if urlsplit(default).scheme in _MOUNTED:
            return LOCAL
        try:
            return cls(context._jvm.org.apache.hadoop.fs.FileSystem.get(settings).getWorkingDirectory().toString())
        except Exception as error:  # Py4J's, of what the JVM lacks: Spark can't open such paths either, and says so
            _log.debug("the working directory of %s is not known: %s", default, error)
            return cls(default, knows_relative=False)

    def locate(self, path: str) -> str:
        """Returns ``path`` with its scheme, or absolute. Raises BadConfigurationError."""
        if has_scheme(path):
            return path
        if not self._directory and not self._knows_relative and not os.path.isabs(path):
            # Workers of a Connect server run in a folder that Spark deletes when it ends.
            raise BadConfigurationError(
                f"path {path!r}: over Spark Connect a relative path has no fixed place on the server: give the "
                "absolute path"
            )
        if not self._directory:
            return os.path.abspath(path)
        if path.startswith("/"):
            scheme, _, rest = self._directory.partition("://")
            return f"{scheme}://{rest.partition('/')[0]}{path}"
        if not self._knows_relative:
            raise BadConfigurationError(
                f"path {path!r}: Spark's default file system is {self._directory}, and where relative paths are there "
                "is not known here: give the whole address"
            )
        return f"{self._directory}/{path}"

    def locate_options(self, options: Mapping[str, str], declared: OptionSet) -> dict[str, str]:
        """Returns the options with those located that are paths. Raises BadConfigurationError."""
        return change_paths(options, declared, self.locate, undeclared=LOCAL.locate)


#: That of a session whose default file system is the local disk.
LOCAL = Home()
