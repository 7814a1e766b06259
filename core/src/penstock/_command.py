"""The script ``penstock``, which is installed with the runtime; the commands themselves are an extra."""

from __future__ import annotations

import sys

__all__ = ["main"]

_OF_THE_EXTRA = {"rich", "typer", "yaml"}


def main() -> None:
    """Runs the command line; ends with code 2 and one line of advice where the extra ``cli`` is not installed."""
    try:
        from penstock.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        print("penstock: the command line is not installed: pip install 'penstock[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    run()
