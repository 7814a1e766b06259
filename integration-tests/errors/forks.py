"""Commands that wait for servers, at the same time: each in a fork of a process that has imported the commands."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["Fork", "exit_code", "prepare"]

#: What takes longer is ended by a signal, which is its exit code.
_LIMIT_S = 120


def exit_code(arguments: Sequence[str]) -> int:
    """Calls the entry point as the script ``penstock`` does, with ``arguments``. Returns the code that it ends with.

    What the command does with signals ends with it.
    """
    from penstock._command import main

    before, sys.argv = sys.argv, ["penstock", *arguments]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 0


def prepare() -> None:
    """Imports in this process what forks would import, each for itself."""
    from penstock._plugins import installed_connectors

    for connector in installed_connectors():
        connector.load()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exit_code(["explain", "PENSTOCK-CORE-010"])
    # A collection of garbage in a fork would copy all of this.
    gc.collect()
    gc.freeze()


class Fork:
    """``penstock`` with ``arguments``, in ``folder``, which is its own. The process that makes it has one thread.

    What C libraries print is seen, too, and the command does at exit what it does in a new process.
    """

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self._files = [folder.with_name(folder.name + end) for end in (".out", ".err")]
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = os.fork()
        if not self._process:
            self._run(arguments, folder)

    def _run(self, arguments: Sequence[str], folder: Path) -> NoReturn:
        code = 1
        try:
            signal.alarm(_LIMIT_S)
            os.chdir(folder)
            for number, path in enumerate(self._files, 1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            code = exit_code(arguments)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        # As Python ends, but without taking a thousand modules apart.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def wait(self) -> tuple[str, str, int]:
        """Returns what was printed, on both streams, and the exit code: -n after signal n."""
        _, status = os.waitpid(self._process, 0)
        out, err = (path.read_text("utf-8", "replace") for path in self._files)
        return out, err, os.waitstatus_to_exitcode(status)
