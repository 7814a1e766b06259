"""``scripts/soak simulate [MINUTES] [--seed N]``: as many schedules of the commit protocol as fit into the time.

Every core runs schedules of all targets in turn. Prints what was covered, and every failure, shrunk.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from penstock.testing.simulation import Report, search
from suite.simulated_targets import TARGETS

_PIECE = 500


def piece(name: str, first: int) -> Report:
    """Runs some schedules of one target. Called in a worker process."""
    logging.disable(logging.CRITICAL)
    return search(range(first, first + _PIECE), TARGETS[name])


def main() -> int:
    """Runs the search. Returns 1 if a schedule failed."""
    parser = argparse.ArgumentParser(prog="scripts/soak simulate")
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 40), help="the first one")
    given = parser.parse_args()
    until, first = time.monotonic() + 60 * given.minutes, given.seed
    print(f"schedules from seed {first} on, for {given.minutes:g} minutes", flush=True)
    covered = {name: Report() for name in TARGETS}
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        while time.monotonic() < until and not any(report.failures for report in covered.values()):
            seeds = [first + _PIECE * number for number in range(os.cpu_count() or 1)]
            pieces = {pool.submit(piece, name, seed): name for name in TARGETS for seed in seeds}
            first = seeds[-1] + _PIECE
            for done, name in pieces.items():
                covered[name] += done.result()
            total = sum(report.schedules for report in covered.values())
            print(f"\r{total:,} schedules", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return say(covered)


def say(covered: dict[str, Report]) -> int:
    for name, report in covered.items():
        print(f"\n{name}: {report}")
    schedules = sum(one.schedules for one in covered.values())
    killed = sum(one.ends["killed"] for one in covered.values())
    print(f"\n{schedules:,} schedules, {killed:,} processes killed")
    failures = [failure for report in covered.values() for failure in report.failures]
    for failure in failures:
        print(f"\n{failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
