"""``scripts/flaws``: plants flaws, and renews the table."""

from __future__ import annotations

import argparse
import sys

from flaws import table
from flaws.bases import BASES
from flaws.catalogue import BadFlaw, Flaw, catalogue
from flaws.running import HANGS, MISSED, Outcome, clean, run


def main() -> int:
    """Returns 1 if a flaw can't be planted, a base fails, or what was caught no longer is."""
    parser = argparse.ArgumentParser(prog="scripts/flaws", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", action="append", help="flaws whose name contains it; may be repeated")
    parser.add_argument("--missed", action="store_true", help="flaws that were missed, or hung, the last time")
    parser.add_argument("--new", action="store_true", help="flaws that are not in the table")
    parser.add_argument("--verify", action="store_true", help="write no table; fail if one that was caught is not")
    parser.add_argument("--clean", action="store_true", help="the bases as they are, which must pass")
    parser.add_argument("--show", action="store_true", help="print what pytest says")
    given = parser.parse_args()
    flaws, known = catalogue(), table.read()
    chosen = [clean(base) for base in BASES] if given.clean else _chosen(flaws, given, known)
    problems, outcomes = [], dict[str, Outcome]()
    for flaw in chosen:
        try:
            outcome = run(flaw, given.show)
        except BadFlaw as error:
            problems.append(f"{flaw.name}: {error}")
            print(f"{flaw.name:<60} BROKEN: {error}", flush=True)
            continue
        print(f"{flaw.name:<60} {outcome.case} ({outcome.seconds:.1f} s)", flush=True)
        is_caught = outcome.case not in (MISSED, HANGS)
        if given.clean and outcome.case != MISSED:
            problems.append(f"the base {flaw.base} fails: {outcome.case}")
        elif given.verify and not is_caught and known.get(flaw.name, Outcome(MISSED, 0)).case not in (MISSED, HANGS):
            problems.append(f"{flaw.name}: {outcome.case}, and was caught by {known[flaw.name].case}")
        outcomes[flaw.name] = outcome
        if not given.verify and not given.clean:
            table.write(flaws, table.read() | outcomes)  # read again, since another process may run other flaws
    print("\n".join(problems), file=sys.stderr)
    return bool(problems)


def _chosen(flaws: list[Flaw], given: argparse.Namespace, known: dict[str, Outcome]) -> list[Flaw]:
    if given.only:
        flaws = [flaw for flaw in flaws if any(text in flaw.name for text in given.only)]
    if given.missed:
        flaws = [flaw for flaw in flaws if flaw.name in known and known[flaw.name].case in (MISSED, HANGS)]
    return [flaw for flaw in flaws if flaw.name not in known] if given.new else flaws


if __name__ == "__main__":
    sys.exit(main())
