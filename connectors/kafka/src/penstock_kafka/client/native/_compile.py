"""Compiles the C sources beside this file into the shared library that ships in the wheel.

Run by the package's build script, and by hand after a change of the sources: ``python -m
penstock_kafka.client.native._compile``. Needs a C compiler, but not Python's headers: the library
holds for every Python version. Imports nothing of the package, whose dependencies a build does not have.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["LIBRARY", "compile_library", "source_hash"]

HERE = Path(__file__).parent
LIBRARY = HERE / "record_batches.so"
TIMEOUT_SECONDS = 300


def source_hash() -> str:
    """What the sources are, in short; empty where they are not there."""
    sources = sorted([*HERE.glob("*.c"), *HERE.glob("*.h")])
    digest = hashlib.sha256(b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources))
    return digest.hexdigest()[:16] if sources else ""


def _command(target: Path) -> list[str]:
    shared = ["-dynamiclib", "-undefined", "error"] if sys.platform == "darwin" else ["-shared", "-Wl,--no-undefined"]
    return [
        *shlex.split(os.environ.get("CC", "cc")),
        *("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"),
        *shlex.split(os.environ.get("CFLAGS", "")),
        f'-DPENSTOCK_SOURCE_HASH="{source_hash()}"',
        *shared,
        *("-o", str(target)),
        *(str(path) for path in sorted(HERE.glob("*.c"))),
    ]


def compile_library() -> str:
    """Makes :data:`LIBRARY` anew, atomically. Returns why that failed; empty if it did not."""
    with tempfile.TemporaryDirectory(dir=HERE) as scratch:
        built = Path(scratch) / LIBRARY.name
        try:
            done = subprocess.run(_command(built), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the C compiler did not run: {error}"
        if done.returncode != 0:
            return f"the C compiler failed:\n{done.stderr.strip()}"
        os.replace(built, LIBRARY)
    return ""


if __name__ == "__main__":
    sys.exit(compile_library() or None)
