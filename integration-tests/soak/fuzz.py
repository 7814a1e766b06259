"""``scripts/soak fuzz [MINUTES] [--seed N] [NAME…]``: hostile bytes for every decoder, and for the C parts.

Each target of ``tools/fuzz/registry.py`` gets an equal part of the time; then the C parts, built with sanitizers. Names
restrict it to the targets that begin so. An input that crashes, hangs, takes too much memory or ends in another error
than it should is written to a file; ``scripts/soak fuzz --again NAME FILE`` tries it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import zlib
from pathlib import Path

from fuzz import campaign, native
from fuzz.campaign import Outcome
from fuzz.registry import TARGETS

FAILED = Path(__file__).resolve().parents[2] / ".cache" / "fuzz"


def main() -> int:
    """Runs the targets. Returns 1 if an input failed."""
    parser = argparse.ArgumentParser(prog="scripts/soak fuzz")
    parser.add_argument("what", nargs="*", help="minutes (10), then targets, or what their names begin with")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--again", nargs=2, metavar=("NAME", "FILE"), help="tries one input")
    given = parser.parse_args()
    if given.again:
        return again(*given.again)
    has_minutes = bool(given.what) and given.what[0].replace(".", "", 1).isdigit()
    minutes, names = (float(given.what[0]), given.what[1:]) if has_minutes else (10.0, given.what)
    chosen = [one for one in TARGETS if not names or one.name.startswith(tuple(names))]
    parts = [name for name in native.DRIVERS if not names or name.startswith(tuple(names))]
    if not chosen and not parts:
        print(f"no target begins with {', '.join(names)}: there are {', '.join(one.name for one in TARGETS)}")
        return 2
    seconds = 60 * minutes / (len(chosen) + len(parts))
    print(f"--seed {given.seed}, {seconds:.0f} s for each of {len(chosen) + len(parts)} targets", flush=True)
    failed = 0
    for target in chosen:
        (found,) = campaign.run([target], seed=given.seed, seconds=seconds)
        failed += say(found)
    for name in parts:
        failed += say(native.run(name, seed=given.seed, seconds=seconds))
    return 1 if failed else 0


def again(name: str, path: str) -> int:
    """Tries one input. Returns 1 if it fails."""
    if name in native.DRIVERS:
        return say(native.again(name, Path(path)))
    target = next(one for one in TARGETS if one.name == name)
    return say(campaign.again(target, Path(path).resolve()))


def say(found: Outcome) -> bool:
    """Prints a line of the table. Returns whether an input failed."""
    rate = f"{found.tried / found.seconds:>9,.0f}/s" if found.seconds else " " * 11
    print(f"{found.target:<28} {found.tried:>12,} inputs {rate}  {'FAILED' if found.problem else 'ok'}", flush=True)
    if found.problem:
        FAILED.mkdir(parents=True, exist_ok=True)
        path = FAILED / f"{found.target}-{zlib.crc32(found.data):08x}"
        path.write_bytes(found.data)
        print(f"{found.problem}\n  try it again: scripts/soak fuzz --again {found.target} {path}", flush=True)
    return bool(found.problem)


if __name__ == "__main__":
    sys.exit(main())
