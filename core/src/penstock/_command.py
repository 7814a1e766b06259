"""The script ``penstock``, which is installed with the runtime; the commands themselves are an extra."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["ending_signals", "main"]

_OF_THE_EXTRA = {"rich", "typer", "yaml"}


#: Commands that run until they are stopped, and say so themselves once they have begun.
_STOPPED_BY_SIGNALS = ("run", "replay")


def ending_signals() -> tuple[signal.Signals, ...]:
    """Returns the signals that ask a command to end: SIGINT, SIGTERM, and SIGHUP of a closed terminal, unless that is
    ignored, as under ``nohup``.
    """
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if is_kept else (signal.SIGHUP,)))


def _have_streams() -> None:
    """Discards what is printed to a stream that the shell has closed (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Runs the command line; ends with code 2 and one line of advice where the extra ``cli`` is not installed."""
    _have_streams()
    if sys.argv[1:2] and sys.argv[1] in _STOPPED_BY_SIGNALS:
        for one in ending_signals():
            signal.signal(one, _leave)
    try:
        from penstock.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        print("penstock: the command line is not installed: pip install 'penstock[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    run()
