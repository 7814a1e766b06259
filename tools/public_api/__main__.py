"""``scripts/api [--update | --release PACKAGE]``: checks the listings, or writes them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from public_api.checking import Workspace

ROOT = Path(__file__).parents[2]


def main() -> int:
    """The command. Exit code 1 if something is to be done."""
    parser = argparse.ArgumentParser(prog="scripts/api", description="The public API: listed, and announced.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--update", action="store_true", help="write the listings anew, then check")
    what.add_argument("--release", metavar="PACKAGE", help="from now on compare PACKAGE with what it offers today")
    arguments = parser.parse_args()
    workspace = Workspace(ROOT)
    if arguments.update:
        workspace.update()
    if arguments.release:
        workspace.release(arguments.release)
    problems = workspace.problems()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
