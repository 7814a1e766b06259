"""``scripts/mutants SCOPE``: see CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

from mutants import results
from mutants.faults import mutants_of
from mutants.run import Outcome, run
from mutants.scopes import SCOPES
from mutants.survivors import Survivors

ROOT = Path(__file__).resolve().parents[2]
#: Of all mutants, so many per cent must be killed.
WANTED = 90


def main() -> int:
    """The command. Exit code 1 if too few are killed, a survivor has no reason, or a reason has no mutant."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description="Do the tests notice faults in the code?")
    parser.add_argument("scope", choices=SCOPES)
    parser.add_argument("--sample", metavar="N", type=int, help="so many, by chance, the same ones each time")
    parser.add_argument("--processes", metavar="N", type=int, default=1)
    parser.add_argument("--only", metavar="TEXT", default="", help="those in whose description TEXT is")
    parser.add_argument("--survivors", action="store_true", help="only those that nothing killed in the last run")
    parser.add_argument("--stages", metavar="N", type=int, help="only so many stages of the scope's tests")
    parser.add_argument("--record", action="store_true", help=f"write the counts down in {results.RESULTS.name}")
    arguments = parser.parse_args()
    scope = SCOPES[arguments.scope]
    known = Survivors.load()
    every = [mutant for file in scope.sources for mutant in mutants_of(ROOT, file)]
    stale = known.stale(every, scope.sources)
    last = results.Last(ROOT, arguments.scope)
    chosen = [mutant for mutant in every if arguments.only in str(mutant)]
    if arguments.survivors:
        chosen = [mutant for mutant in chosen if last.survived(mutant)]
    if arguments.sample:
        chosen = sorted(random.Random(0).sample(chosen, min(arguments.sample, len(chosen))), key=every.index)
    stages = scope.stages[: arguments.stages]
    outcomes = run(stages, chosen, arguments.processes, lambda outcome: _on_outcome(outcome, last))
    if arguments.survivors:
        outcomes += last.killed(every, outcomes)
    results.print_summary(outcomes, known)
    for key in stale:
        print(f"no such mutant (any more), see {known.path.name}: {key}")
    killed = sum(outcome.is_killed for outcome in outcomes)
    if arguments.record and len(outcomes) == len(every):
        results.record(ROOT, arguments.scope, outcomes, known)
    unknown = [one for one in outcomes if not one.is_killed and not known.reason(one.mutant)]
    return int(bool(stale or unknown) or 100 * killed < WANTED * len(outcomes))


def _on_outcome(outcome: Outcome, last: results.Last) -> None:
    last.add(outcome)
    if not outcome.is_killed:
        print(f"survives: {outcome.mutant}", flush=True)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
