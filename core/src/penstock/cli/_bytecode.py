"""Bytecode for the zip from which Spark's Python processes import PySpark.

Spark puts ``python/lib/pyspark.zip`` of its home before everything else. There is no bytecode in it, and none can be
kept: each process compiles all that it imports, about a second of its start; a streaming query starts some ten.
"""

from __future__ import annotations

import compileall
import os
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode

__all__ = ["add_bytecode", "archives_without_bytecode"]


def archives_without_bytecode(env: Mapping[str, str]) -> list[Path]:
    """Returns those of ``SPARK_HOME``, or of the installed PySpark."""
    home = env.get("SPARK_HOME")
    if not home:
        found = find_spec("pyspark")
        if found is None or found.origin is None:
            return []
        home = str(Path(found.origin).parent)
    return [path for path in sorted(Path(home, "python", "lib").glob("*.zip")) if not _has_bytecode(path)]


def _has_bytecode(archive: Path) -> bool:
    with zipfile.ZipFile(archive) as opened:
        return any(name.endswith(".pyc") for name in opened.namelist())


def add_bytecode(archive: Path) -> None:
    """Adds it to the sources, for this version of Python; others still compile. Takes seconds.

    Not while Spark runs from it: processes look again where things were. Raises OSError if it can't be replaced.
    """
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        sources, made = Path(name, "in"), Path(name, archive.name)
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(sources)
        compileall.compile_dir(
            sources,
            quiet=2,
            legacy=True,
            stripdir=str(sources),
            prependdir=str(archive),
            # The rest of the archive never changes.
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
            workers=0,
        )
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
            for path in sorted(sources.rglob("*")):
                if path.is_file():
                    opened.write(path, path.relative_to(sources).as_posix())
        made.chmod(archive.stat().st_mode)
        os.replace(made, archive)
