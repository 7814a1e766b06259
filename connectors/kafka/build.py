"""Compiles the package's C into the shared library that ships in its wheel, beside the sources.

Run by the package's build, and by hand after a change of the sources: ``python build.py``. Needs a C compiler, but not
Python's headers: the library holds for every Python version. Without a compiler the package is built in pure Python.
``PENSTOCK_COMPILED=required`` fails the build instead, and ``PENSTOCK_COMPILED=none`` leaves the library out.

Each package that holds C has a copy of this file: a build has nothing but what is in its own directory.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY_NAME = "compiled.so"
TIMEOUT_SECONDS = 300
#: Environment variable: what to do about the compiled part.
SWITCH = "PENSTOCK_COMPILED"
CHOICES = ("auto", "required", "none")


def source_hash(directory: Path) -> str:
    """What the sources are, in short. The library says it, and whoever loads it compares."""
    sources = sorted([*directory.glob("*.c"), *directory.glob("*.h")])
    digest = hashlib.sha256(b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources))
    return digest.hexdigest()[:16]


def command(directory: Path, target: Path) -> list[str]:
    """What compiles the sources in ``directory``."""
    shared = ["-dynamiclib", "-undefined", "error"] if sys.platform == "darwin" else ["-shared", "-Wl,--no-undefined"]
    return [
        *shlex.split(os.environ.get("CC", "cc")),
        *("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"),
        *shlex.split(os.environ.get("CFLAGS", "")),
        f'-DPENSTOCK_SOURCE_HASH="{source_hash(directory)}"',
        *shared,
        *("-o", str(target)),
        *(str(path) for path in sorted(directory.glob("*.c"))),
    ]


def compile_library(directory: Path) -> str:
    """Makes the library anew, atomically. Returns why that failed; empty if it did not."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        built = Path(scratch) / LIBRARY_NAME
        try:
            done = subprocess.run(
                command(directory, built), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the C compiler did not run: {error}"
        if done.returncode != 0:
            return f"the C compiler failed:\n{done.stderr.strip()}"
        os.replace(built, directory / LIBRARY_NAME)
    return ""


def main() -> None:
    """Says what became of it. Fails only where ``PENSTOCK_COMPILED=required`` asks for it: a package without its
    compiled part is slower, and complete.
    """
    package = Path(__file__).resolve().parent
    choice = os.environ.get(SWITCH, "") or "auto"
    if choice not in CHOICES:
        sys.exit(f"{package.name}: {SWITCH}={choice} is unknown: write {', '.join(CHOICES)}")
    for directory in sorted(package.glob("src/**/native")):
        problem = f"{SWITCH}=none" if choice == "none" else compile_library(directory)
        if problem:
            # A library of other sources must not be shipped.
            (directory / LIBRARY_NAME).unlink(missing_ok=True)
            if choice == "required":
                sys.exit(f"{package.name}: its compiled part is required and could not be built: {problem}")
            print(f"{package.name}: built without its compiled part, the slower one in Python is used: {problem}")
        else:
            print(f"{package.name}: compiled {directory.relative_to(package)}")


if __name__ == "__main__":
    main()
