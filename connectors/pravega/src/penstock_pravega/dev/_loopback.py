"""Keeping a server that listens on every address of the machine to 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from penstock.errors import BadConfigurationError, FatalError

__all__ = ["loopback_library"]

_SOURCE = Path(__file__).with_name("loopback.c")


def loopback_library(folder: Path) -> Path:
    """Returns a library to preload, compiled into ``folder`` if it is not there. Raises BadConfigurationError.

    Pravega's controller and its ZooKeeper have no setting for the address that they listen on.
    """
    library = folder / "loopback.so"
    if library.exists():
        return library
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if compiler is None or not sys.platform.startswith("linux"):
        raise BadConfigurationError(
            "a local Pravega would listen on every address of this machine; keeping it to 127.0.0.1 needs Linux and a "
            "C compiler (such as gcc). Without them, start one by hand or in a container and set "
            "PENSTOCK_PRAVEGA_ADDRESS"
        )
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise FatalError(f"{compiler} could not compile {_SOURCE.name}: {done.stderr[-1000:]}")
    return library
