"""A year of flights as a stream, killed on the way, and not one flight lost or doubled.

Run by ``scripts/demo``. Files arrive in ``demo-output/in/`` while ``penstock run pipeline.yaml`` counts them. The job
is killed with SIGKILL at random moments, started again each time, and what it published is compared with a plain batch
computation of the same flights: while it runs and at the end.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from compare import Comparison, compare, expected_counts, published_files, read_published
from feeder import Feeder
from flights_data import NoDataError, fetch_flights, load_flights
from job import Ended, Job
from show import Show, State, draw_day

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUTPUT = ROOT / "demo-output"
PIPELINE = HERE / "pipeline.yaml"
#: Without a sign of life from the job for so long, something is wrong.
PATIENCE_SECONDS = 180
LOOK_EVERY_SECONDS = 2.0
#: The busiest hours, for the reader to try.
QUERY = (
    """import duckdb; duckdb.sql("from read_parquet(\\"demo-output/out/*/*\\") order by flights desc limit 5").show()"""
)


class DemoError(Exception):
    """The demo can't go on."""


@dataclass(frozen=True)
class Moment:
    """When to kill a run: ``seconds`` after it reported ``batches`` batches."""

    batches: int
    seconds: float


def choose_moments(kills: int, dice: random.Random) -> list[Moment]:
    """Random moments: one while the job starts and recovers, the others between and within its batches."""
    moments = [Moment(dice.randint(1, 6), dice.uniform(0, 1.5)) for _ in range(kills)]
    if kills > 1:
        # Not the first run: it has nothing to recover yet.
        moments[dice.randrange(1, kills)] = Moment(0, dice.uniform(2, 8))
    return moments


@dataclass
class Demo:
    """The state of one demonstration."""

    expected: pa.Table
    feeder: Feeder
    show: Show
    state: State
    dice: random.Random
    looked_at: float = field(default_factory=time.monotonic)

    def run(self, moments: list[Moment]) -> None:
        """Kills the job at each of the moments, then lets it end."""
        self.feeder.start()
        waiting = list(moments)
        while waiting:
            if self._run_job(waiting[0]):
                waiting.pop(0)
            else:
                # It had read everything there was before the moment came. The next one comes before it can.
                waiting[0] = Moment(0, self.dice.uniform(0.5, 3))
        self.feeder.hurry()
        self.feeder.join()
        if self.feeder.error is not None:
            raise DemoError(f"the feeder failed: {self.feeder.error}")
        self._run_job(None)

    def _run_job(self, moment: Moment | None) -> bool:
        """One run. Returns whether it was killed; otherwise it ended by itself."""
        state = self.state
        state.begin_run()
        job = Job(PIPELINE, OUTPUT / "job.log")
        batches, heard = 0, time.monotonic()
        kill_at = heard + moment.seconds if moment and moment.batches == 0 else None
        try:
            while True:
                event = job.next_event(0.1)
                if isinstance(event, Ended):
                    if event.code != 0:
                        raise DemoError(f"the job failed (exit code {event.code}); see {OUTPUT / 'job.log'}")
                    return False
                if event is not None:
                    heard = time.monotonic()
                    if "batch" in event:
                        batches += 1
                        state.batch(event)
                    if moment and kill_at is None and batches >= moment.batches:
                        kill_at = heard + moment.seconds
                if kill_at is not None and time.monotonic() >= kill_at and job.kill():
                    state.killed(batches)
                    return True
                if time.monotonic() - heard > PATIENCE_SECONDS:
                    raise DemoError(f"no word from the job for {PATIENCE_SECONDS} s; see {OUTPUT / 'job.log'}")
                self._look()
        finally:
            job.kill()
            self.show.refresh()

    def _look(self) -> None:
        """Looks at the published files as a reader would, at any moment: nothing may be there twice, or unreadable."""
        self.state.fed, self.state.newest = self.feeder.fed, self.feeder.newest
        if time.monotonic() - self.looked_at >= LOOK_EVERY_SECONDS:
            try:
                seen = compare(self.expected, read_published(OUTPUT / "out"))
            except (OSError, pa.ArrowException) as error:
                raise DemoError(f"a reader of {OUTPUT / 'out'} found what it could not read: {error}") from error
            self.state.looked(seen, len(published_files(OUTPUT / "out")))
            if seen.doubled:
                raise DemoError(f"a reader of {OUTPUT / 'out'} saw {seen.doubled} flights doubled while the job ran")
            self.looked_at = time.monotonic()
        self.show.refresh()


def prepare_output() -> None:
    """Removes what an earlier demo left and makes the directories."""
    for name in ("in", "out", "checkpoint"):
        shutil.rmtree(OUTPUT / name, ignore_errors=True)
    (OUTPUT / "job.log").unlink(missing_ok=True)
    for name in ("in", "out"):
        (OUTPUT / name).mkdir(parents=True)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=3, help="how often to kill the job (at least and by default 3)")
    parser.add_argument("--seed", type=int, help="repeats the random moments of an earlier run")
    parser.add_argument("--feed-seconds", type=float, default=45, help="over how long the year is fed (default 45)")
    arguments = parser.parse_args()
    if arguments.kills < 3:
        parser.error("--kills must be at least 3")
    return arguments


def verdict(outcome: Comparison, kills: int, files: int) -> str:
    """The last line."""
    return (
        f"rows read {outcome.flights} · rows written {outcome.rows} · kills {kills} · "
        f"lost={outcome.lost} doubled={outcome.doubled} · files {files}"
    )


def main() -> int:
    """The demo. Returns the exit code: 0 if every count is right."""
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10_000)
    started = time.monotonic()
    try:
        flights = load_flights(fetch_flights(ROOT / ".cache"))
        prepare_output()
        feeder = Feeder(flights, OUTPUT / "in", seconds=arguments.feed_seconds)
        state = State(files=feeder.total, kills_planned=arguments.kills, seed=seed)
        dice = random.Random(seed)
        with Show(state) as show:
            demo = Demo(expected_counts(flights), feeder, show, state, dice)
            demo.run(choose_moments(arguments.kills, dice))
    except (DemoError, NoDataError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    published = read_published(OUTPUT / "out")
    outcome = compare(demo.expected, published)
    draw_day(flights, published)
    files = len(published_files(OUTPUT / "out"))
    print(f"\nLooked {state.looks} times while it ran: every published file readable, nothing doubled.")
    print("What it left is in demo-output/. Look at it:")
    print("  .venv/bin/penstock inspect demo-output/checkpoint")
    print(f"  .venv/bin/python -c '{QUERY}'")
    print(f"It took {time.monotonic() - started:.0f} s. The same moments again: scripts/demo --seed {seed}\n")
    print(verdict(outcome, state.kills, files))
    return 0 if outcome.lost == outcome.doubled == 0 and state.kills >= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
