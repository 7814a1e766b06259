"""``scripts/release``: see its head, and CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from release.packages import ReleaseError
from release.releasing import build, preview, release

ROOT = Path(__file__).parents[2]


def main() -> int:
    """The command. Exit code 2 for what the caller has to change, 1 for a check that failed."""
    parser = argparse.ArgumentParser(prog="scripts/release", description="Builds packages and releases them.")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE[=VERSION]", help="what to release, and as what")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--build", action="store_true", help="only build the files of PACKAGEs, by default of all")
    what.add_argument("--changelog", action="store_true", help="only print the changelog of the next release")
    what.add_argument("--dry-run", action="store_true", help="do everything, and keep only the files")
    parser.add_argument("--repository", default="", metavar="URL", help="where the sources are, for the index pages")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="for the files (dist)")
    given = parser.parse_args()
    try:
        if given.changelog:
            print(preview(ROOT, given.packages))
        elif given.build:
            build(ROOT, given.packages, given.out, _say, repository=given.repository)
        elif given.packages:
            release(ROOT, given.packages, given.out, _say, repository=given.repository, dry_run=given.dry_run)
        else:
            parser.error("name what to release, such as penstock-kafka=0.2.0, or use --build or --changelog")
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _say(text: str) -> None:
    print(f"release: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
