"""``scripts/soak simulate``: as many schedules of the commit protocol as fit into the time, or as are asked for.

Every core runs schedules of all targets in turn: of a query's own sink and of a batch function; and of ``df.write``, on
the models of a disk and of stores. Prints what was covered, and every failure, shrunk.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from penstock.testing.simulation import Report, search
from soak.simulated import FILE, record
from suite.azure_model import AzureTarget
from suite.batch_world import search_writes
from suite.file_model import DiskTarget, S3Target
from suite.gcs_model import GcsTarget
from suite.simulated_targets import TARGETS

_PIECE = 200
_STORES = {"a disk": DiskTarget, "S3": S3Target, "Azure": AzureTarget, "Google's store": GcsTarget}
#: What runs the schedules of some seeds, by what writes to which target.
SEARCHES: dict[str, Callable[[Iterable[int]], Report]] = {
    **{name: partial(search, make_target=target) for name, target in TARGETS.items()},
    **{
        f"{name}, from a batch function": partial(search, make_target=target, in_batch=True)
        for name, target in TARGETS.items()
    },
    **{f"df.write to {name}": partial(search_writes, make_target=target) for name, target in _STORES.items()},
}


def piece(name: str, first: int) -> Report:
    """Runs some schedules of one kind. Called in a worker process."""
    logging.disable(logging.CRITICAL)
    return SEARCHES[name](range(first, first + _PIECE))


def main() -> int:
    """Runs the search. Returns 1 if a schedule failed."""
    parser = argparse.ArgumentParser(prog="scripts/soak simulate")
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 40), help="the first one")
    parser.add_argument("--schedules", type=int, default=1 << 60, help="end after so many, or a few more")
    parser.add_argument("--record", action="store_true", help=f"add them to {FILE.name}, if nothing was found")
    given = parser.parse_args()
    until, first = time.monotonic() + 60 * given.minutes, given.seed
    print(f"schedules from seed {first} on, for {given.minutes:g} minutes", flush=True)
    covered = {name: Report() for name in SEARCHES}
    total = 0
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        while (
            time.monotonic() < until
            and total < given.schedules
            and not any(report.failures for report in covered.values())
        ):
            seeds = [first + _PIECE * number for number in range(os.cpu_count() or 1)]
            pieces = {pool.submit(piece, name, seed): name for name in SEARCHES for seed in seeds}
            first = seeds[-1] + _PIECE
            for done, name in pieces.items():
                covered[name] += done.result()
            total = sum(report.schedules for report in covered.values())
            print(f"\r{total:,} schedules", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    status = say(covered)
    if given.record and not status:
        total = record(total, sum(one.ends["killed"] for one in covered.values()))
        print(f"{total:,} schedules of the code as it is now")
    return status


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
