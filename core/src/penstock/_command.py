"""The script ``penstock``, which is installed with the runtime; the commands themselves are an extra."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]

_OF_THE_EXTRA = {"rich", "typer", "yaml"}


#: Commands that run until they are stopped, and say so themselves once they have begun.
_STOPPED_BY_SIGNALS = ("run", "replay")


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Runs the command line; ends with code 2 and one line of advice where the extra ``cli`` is not installed."""
    if sys.argv[1:2] and sys.argv[1] in _STOPPED_BY_SIGNALS:
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, _leave)
    try:
        from penstock.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        print("penstock: the command line is not installed: pip install 'penstock[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    run()
