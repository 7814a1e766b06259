"""What a script that fails prints last: our own words, after the traces of two languages and a query plan."""

from __future__ import annotations

import contextlib
import sys
import threading
from types import TracebackType
from typing import Any

from penstock._causes import carries_ours, explain
from penstock.printable import printable

__all__ = ["hush_cut_updates", "note_failure", "note_seen", "print_last_words", "say_last", "say_unseen"]

_MARK = "_penstock_last_words"
#: By id of a run: what a query has failed with, empty once the process has asked.
_failures: dict[str, str] = {}


def note_failure(run: str, text: str) -> None:
    """Notes what the run of a query has failed with, in Spark's words. Any thread."""
    _failures.setdefault(run, text)


def note_seen(run: str) -> None:
    """Notes that the process has asked for a run's failure: it need not be said at the end. Any thread."""
    _failures[run] = ""


def say_unseen() -> None:
    """Prints a line for each query that has failed in the background, which nothing waited for or asked."""
    for text in _failures.values():
        if text:
            say_last(RuntimeError(text))
    _failures.clear()


def print_last_words() -> None:
    """Lets an exception that nothing catches, in the main thread, in another one or in a notebook's cell, end with a
    line of ours if it carries one of our errors. What was printed before is printed as before. Once in a process.
    """
    if not hasattr(sys.excepthook, _MARK):
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            before(kind, error, trace)
            say_last(error)

        setattr(hook, _MARK, True)
        sys.excepthook = hook
    if not hasattr(threading.excepthook, _MARK):
        in_threads = threading.excepthook

        def thread_hook(arguments: Any) -> None:
            in_threads(arguments)
            if arguments.exc_value is not None:
                say_last(arguments.exc_value)

        setattr(thread_hook, _MARK, True)
        threading.excepthook = thread_hook
    notebook = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    if shell is not None and not getattr(shell, _MARK, False):
        setattr(shell, _MARK, True)
        shell.set_custom_exc((Exception,), _in_notebook)


def _in_notebook(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: Any = None
) -> None:
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    say_last(error)


def hush_cut_updates(context: Any) -> None:
    """Prints no trace where Spark drops its connection for the updates of accumulators, as it may when a query is
    stopped in the middle of a batch: it connects again for the next one. Classic sessions; once for a context.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is None or hasattr(server, _MARK):
        return
    report = server.handle_error

    def handle_error(*where: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            report(*where)

    server.handle_error = handle_error
    setattr(server, _MARK, True)


def say_last(error: BaseException) -> None:
    """Prints the line if the error carries one of ours, unless its last note is that line."""
    with contextlib.suppress(Exception):  # whatever goes wrong here must not hide the error itself
        if carries_ours(error):
            line = f"penstock: {explain(error)}"
            if line not in getattr(error, "__notes__", [])[-1:]:
                print(printable(line, lines=True), file=sys.stderr, flush=True)
