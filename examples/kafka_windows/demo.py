"""Page views counted from Kafka to Kafka, the job killed on the way, and not one view lost or doubled.

    python examples/kafka_windows/demo.py

Starts a broker, or uses the one of PENSTOCK_KAFKA_ADDRESS. Page views are fed into a topic while ``job.py`` counts them
per page and minute. The job is killed with SIGKILL at random moments and started again. A consumer of committed records
watches all the time, and what it saw is compared with a plain count of the same views: while the job runs (nothing may
be there twice) and at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from reader import Reader, compare
from show import Show, State
from views import Feeder, count_views, make_views

from penstock.dev import open_server
from penstock.errors import PenstockError
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parents[1] / "demo-output" / "kafka_windows"
JOB_LOG = OUTPUT / "job.log"
PARTITIONS_IN, PARTITIONS_OUT = 3, 2
#: Without a sign of life from the job for so long, something is wrong.
PATIENCE_SECONDS = 180


class DemoError(Exception):
    """The demo can't go on."""


class Job:
    """One run of ``job.py`` in a process group of its own."""

    def __init__(self, *arguments: str) -> None:
        # A JVM that lives for seconds spends a third of them on optimizing code that it won't run again.
        environment = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"} | os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        with JOB_LOG.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "job.py"), *arguments],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises DemoError if it has ended by itself: it never should."""
        if self._process.poll() is not None:
            raise DemoError(f"the job ended by itself (exit code {self._process.returncode}); see {JOB_LOG}")

    def kill(self) -> None:
        """SIGKILL to driver and JVM at once, so that nobody says goodbye."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@dataclass(frozen=True)
class Moment:
    """When to kill a run: ``seconds`` after it started, or after it published its first counts."""

    seconds: float
    after_counts: bool


def choose_moments(kills: int, dice: random.Random) -> list[Moment]:
    """Random moments: one while the job starts and recovers, the others between and within its batches."""
    moments = [Moment(dice.uniform(0, 2.5), True) for _ in range(kills)]
    if kills > 1:
        # Not the first run: it has nothing to recover yet.
        moments[dice.randrange(1, kills)] = Moment(dice.uniform(2, 7), False)
    return moments


class Demo:
    """One demonstration on a broker."""

    def __init__(self, brokers: str, dice: random.Random, kills: int, seed: int, feed_seconds: float) -> None:
        kafka, token = KafkaToolbox(brokers), uuid.uuid4().hex[:6]
        topic_in = kafka.create_topic(f"views-{token}", PARTITIONS_IN)
        topic_out = kafka.create_topic(f"views-per-minute-{token}", PARTITIONS_OUT)
        views = make_views(dice)
        self._arguments = (brokers, topic_in, topic_out, str(OUTPUT / "checkpoint"))
        self._feeder = Feeder(brokers, topic_in, views, seconds=feed_seconds)
        self._reader = Reader(brokers, topic_out, PARTITIONS_OUT)
        self.state = State(count_views(views), kills, seed)

    def run(self, moments: list[Moment]) -> None:
        """Kills the job at each of the moments, then lets it come to the end."""
        self._feeder.start()
        self._reader.start()
        try:
            with Show(self.state, self._look) as show:
                for number, moment in enumerate([*moments, None], 1):
                    self._feeder.allow(number / (len(moments) + 1))
                    self._run_until(show, moment)
        finally:
            self._reader.stop()

    def _run_until(self, show: Show, moment: Moment | None) -> None:
        """A run of the job until it is killed; without a ``moment``, when every view is published."""
        state = self.state
        state.begin_run()
        job, before = Job(*self._arguments), state.counts.total()
        started = last_sign = time.monotonic()
        seen, counting_since = before, None if moment is None or moment.after_counts else started
        try:
            while True:
                job.check()
                show.refresh()
                now = time.monotonic()
                if state.counts.total() != seen:
                    seen, last_sign, state.doing = state.counts.total(), now, "counting"
                    counting_since = counting_since or now
                if moment is not None and counting_since is not None and now >= counting_since + moment.seconds:
                    state.kill("while it counted" if moment.after_counts else "while it started")
                    return
                if moment is None and state.counts == state.expected:
                    time.sleep(1)  # something doubled would come now
                    return
                if now - last_sign > PATIENCE_SECONDS:
                    raise DemoError(f"the job published nothing for {PATIENCE_SECONDS} s; see {JOB_LOG}")
                time.sleep(0.1)
        finally:
            job.kill()

    def _look(self) -> None:
        """What the reader has seen so far: nothing may be there twice, at any moment."""
        state, (counts, rows) = self.state, self._reader.seen()
        state.fed, state.counts = self._feeder.fed, counts
        state.newest = f"{datetime.fromtimestamp(self._feeder.newest_ms / 1000, timezone.utc):%H:%M}"
        seen = compare(state.expected, counts, rows)
        if seen.doubled:
            raise DemoError(f"the reader saw {seen.doubled} views doubled while the job ran")

    def outcome(self) -> str:
        """The last line."""
        counts, rows = self._reader.seen()
        seen = compare(self.state.expected, counts, rows)
        return (
            f"views {self.state.expected.total():,} · counts published {rows} · kills {self.state.kills} · "
            f"lost={seen.lost} doubled={seen.doubled}"
        )


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=3, help="how often to kill the job (default 3)")
    parser.add_argument("--seed", type=int, help="repeats the random moments of an earlier run")
    parser.add_argument("--feed-seconds", type=float, default=30, help="over how long the views are fed (default 30)")
    return parser.parse_args()


def main() -> int:
    """The demo. Returns the exit code: 0 if every count is right."""
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10_000)
    dice, started = random.Random(seed), time.monotonic()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    print("Kafka starts …", flush=True)
    try:
        with open_server(KafkaDevServer(), OUTPUT / "broker") as brokers:
            demo = Demo(brokers, dice, arguments.kills, seed, arguments.feed_seconds)
            demo.run(choose_moments(arguments.kills, dice))
    except (DemoError, PenstockError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    shutil.rmtree(OUTPUT / "broker", ignore_errors=True)
    print("\nLook at what it left: penstock inspect demo-output/kafka_windows/checkpoint")
    print(f"It took {time.monotonic() - started:.0f} s. The same moments again: --seed {seed}\n")
    print(demo.outcome())
    return 0


if __name__ == "__main__":
    sys.exit(main())
