"""``scripts/options [CONNECTOR ...]``: searches tests that fail if an option is ignored, and notes them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import pytest  # noqa: E402

from option_tests.declared import (  # noqa: E402
    CONNECTORS,
    SEEN,
    declared_options,
    declared_uses,
    read_table,
    read_uses,
    write_table,
)
from option_tests.search import Search  # noqa: E402


def main() -> int:
    """The command. Exit code 1 if an option has neither a test nor a reason to do without."""
    parser = argparse.ArgumentParser(prog="scripts/options")
    parser.add_argument("connectors", nargs="*", default=CONNECTORS, metavar="CONNECTOR")
    parser.add_argument("--only", default="", metavar="TEXT", help="options in whose name TEXT is")
    parser.add_argument("--missing", action="store_true", help="only options without a test so far")
    parser.add_argument("--verify", action="store_true", help="do the tests that are noted still fail? Notes nothing")
    parser.add_argument("--tries", type=int, default=25, metavar="N", help="tests tried for an option at most")
    parser.add_argument("--seconds", type=float, default=250, metavar="S", help="time for an option at most")
    parser.add_argument("--tests", nargs="*", default=[], metavar="PATH", help="files to look in, instead of all")
    parser.add_argument("--uses", action="store_true", help="print the uses of options that no test watches")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.uses:
        print_uses(arguments.connectors, arguments.only)
        return 0
    lacking = 0
    for connector in arguments.connectors:
        known = read_table().get(connector, {})
        every = declared_options(connector)
        chosen = [
            one
            for one in every
            if arguments.only.lower() in one.option.name.lower() and not (arguments.missing and one.key in known)
        ]
        if arguments.verify:
            chosen = [one for one in chosen if not known.get(one.key, "-").startswith("-")]
        search = Search(chosen, known, 1 if arguments.verify else arguments.tries, arguments.seconds)
        tests = arguments.tests or [f"connectors/{connector}/tests", "core/tests"]
        if arguments.verify:
            tests = sorted({known[one.key].partition("::")[0] for one in chosen})
        pytest.main(["-q", "-m", "not spark", "-p", "no:cacheprovider", "--no-header", *tests], plugins=[search])
        if arguments.verify:
            stale = [one.key for one in chosen if search.found.get(one.key) != known[one.key]]
            print("".join(f"does not fail without the option: {key}: {known[key]}\n" for key in stale), end="")
            lacking += len(stale)
            continue
        kept = {one.key: known[one.key] for one in every if one.key in known and (one not in chosen)}
        reasons = {key: text for key, text in known.items() if text.startswith("-") and key not in search.found}
        found = {**kept, **reasons, **search.found}
        write_table(connector, found)
        lacking += len([one for one in every if one.key not in found])
        print(f"{connector}: {len(found)} of {len(every)} options have a test or a reason")
    return int(lacking > 0)


def print_uses(connectors: Sequence[str], only: str) -> None:
    """Prints, side by side of each connector, the uses of options of which no test has seen that they are read."""
    table = read_uses()
    for side in [f"{connector} {side}" for connector in connectors for side in ("source", "sink")]:
        noted = table.get(side, {})
        pairs = [(use, option.name) for use, _, option in declared_uses(side) if only.lower() in option.name.lower()]
        open_pairs = [(use, name) for use, name in pairs if noted.get(use, {}).get(name) not in SEEN]
        print(f"{side}: {len(pairs) - len(open_pairs)} of {len(pairs)} uses are read or refused")
        for use, name in open_pairs:
            print(f"  {use}: {name}: {noted.get(use, {}).get(name, 'no test')}")


if __name__ == "__main__":
    raise SystemExit(main())
