"""Kafka to Kafka, exactly once, under random kills, for as long as asked for, with a checker.

A job copies numbered records from one topic to another. At random moments the driver with its JVM, one of Spark's
Python processes, or the broker is killed with SIGKILL, and started again. Meanwhile a consumer of committed records
must see every record once, in order within each key; while nothing is killed no transaction may stay open for longer
than a batch; and transactional ids must be used again.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from harness.kills import kill_worker, restart
from penstock.errors import PenstockError
from penstock_kafka.dev import KafkaToolbox, kafka_server
from soak.findings import Findings
from soak.records import Checker, Feeder
from soak.supervisor import Supervisor
from soak.transactions import TransactionWatch

PARTITIONS_IN, PARTITIONS_OUT = 4, 3
VICTIMS = {"driver": 40, "worker": 35, "broker": 25}
#: After that long without a record the job is stuck.
PATIENCE_SECONDS = 180.0
LOOK_EVERY_SECONDS = 1.0
MOST_SECONDS_DOWN = 5.0


class StuckError(Exception):
    """The job makes no progress."""


class Soak:
    """One soak, from its first record to its result."""

    def __init__(self, folder: Path, dice: random.Random, rate: int) -> None:
        self.findings = Findings()
        self._dice = dice
        self._broker = kafka_server(folder / "broker").start()
        kafka = KafkaToolbox(self._broker.address)
        source, target = kafka.create_topic("in", PARTITIONS_IN), kafka.create_topic("out", PARTITIONS_OUT)
        self.feeder = Feeder(self._broker.address, source, rate)
        self.checker = Checker(self._broker.address, target, PARTITIONS_OUT, self.findings)
        self.transactions = TransactionWatch(self._broker.address, self.findings)
        job = {"brokers": self._broker.address, "in": source, "out": target, "trigger": "0 seconds"}
        # A lost task is tried again, as on a cluster: with local[2] it would end the query.
        job |= {"master": "local[2,4]", "per_trigger": str(60 * rate)}
        self.supervisor = Supervisor(folder, job, self.findings)
        self.kills: Counter[str] = Counter()
        self._started = self._disturbed = self._looked = time.monotonic()
        self._recovered: float | None = None
        self._minute = 0

    def run(self, minutes: float) -> None:
        """Kills until the time is over, then waits for the job's end. Raises StuckError."""
        self.feeder.start()
        self.checker.start()
        end = self._started + minutes * 60
        while time.monotonic() < end:
            # Mostly when the job has recovered and works, now and then so soon that it is hit recovering.
            if self._dice.random() < 0.7:
                self._attend(end, calm_seconds=self._dice.uniform(0.5, 15))
            else:
                self._attend(min(end, time.monotonic() + self._dice.uniform(0.5, 8)))
            if time.monotonic() < end:
                self._kill_one()
        self._finish()

    def _kill_one(self) -> None:
        (victim,) = self._dice.choices(list(VICTIMS), list(VICTIMS.values()))
        down_seconds = self._dice.uniform(0, MOST_SECONDS_DOWN)
        if victim == "driver":
            self.supervisor.kill()
        elif victim == "broker":
            restart(self._broker, down_seconds)
        elif not kill_worker(self.supervisor.driver, self._dice):
            return
        self.kills[victim] += 1
        self._disturb()

    def _disturb(self) -> None:
        self._disturbed, self._recovered = time.monotonic(), None

    # --- watching -----------------------------------------------------------------------------------------------------

    def _attend(self, until: float, calm_seconds: float = math.inf) -> None:
        """Watches until the time ``until``, or until the job has worked for ``calm_seconds`` without a kill."""
        while (now := time.monotonic()) < until and self._calm_seconds() < calm_seconds:
            if self.supervisor.look():
                self._disturb()
            if self._recovered is None and self.checker.last_seen > self._disturbed:
                self._recovered = now
                self.supervisor.works()
            if self._is_stuck():
                raise StuckError(f"no record came for {PATIENCE_SECONDS:.0f} s, and nothing was killed")
            if now - self._looked > LOOK_EVERY_SECONDS:
                self._looked = now
                self.transactions.look(self._calm_seconds())
            if now - self._started >= 60 * (self._minute + 1):
                self._minute += 1
                print(f"{self._minute:4d} min  {self._line()}", flush=True)
            time.sleep(0.1)

    def _is_stuck(self) -> bool:
        return time.monotonic() - max(self.checker.last_seen, self._disturbed) > PATIENCE_SECONDS

    def _calm_seconds(self) -> float:
        """Returns for how long records have arrived since the last kill; 0 until the first one."""
        return 0.0 if self._recovered is None else time.monotonic() - self._recovered

    def _line(self) -> str:
        kills = ", ".join(f"{self.kills[victim]} {victim}" for victim in VICTIMS)
        return (
            f"fed {self.feeder.fed:>9,} · read {self.checker.records:>9,} · killed: {kills} · "
            f"{self.supervisor.starts} starts · {self.transactions.ids} ids, oldest open "
            f"{self.transactions.oldest_seconds:.1f} s · violations {self.findings.count}"
        )

    # --- the end ------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Waits without kills until all records have arrived and no transaction is open. Raises StuckError."""
        self.feeder.stop()
        while self.checker.next != self.feeder.next:
            self._attend(time.monotonic() + 0.5)
        time.sleep(3)  # duplicates would arrive now
        self.transactions.look(0.0)
        if self.transactions.oldest_seconds > 0:
            self.findings.add("a transaction is open though there is nothing to write")

    def close(self) -> None:
        """Stops everything."""
        self.supervisor.stop()
        self.checker.stop()
        self.transactions.close()
        self._broker.kill()

    def summary(self) -> str:
        """Returns the result in a few lines."""
        reasons = ", ".join(f"{count} {name}" for name, count in sorted(self.supervisor.reasons.items())) or "none"
        kills = ", ".join(f"{self.kills[victim]} {victim}" for victim in VICTIMS)
        return (
            f"\n{(time.monotonic() - self._started) / 60:.1f} minutes · {self.kills.total()} kills ({kills}) · "
            f"{self.supervisor.starts} starts of the driver; it ended by itself: {reasons}\n"
            f"{self.transactions.ids} transactional ids; longest open while nothing was killed: "
            f"{self.transactions.longest_calm_seconds:.1f} s\n"
            f"records {self.checker.records:,} of {self.feeder.fed:,} · "
            f"lost={self.checker.lost} duplicated={self.checker.doubled} · "
            f"violations {self.findings.count}"
        )


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("minutes", nargs="?", type=float, default=10, help="how long (default 10)")
    parser.add_argument("--seed", type=int, help="repeats the random choices of an earlier run")
    parser.add_argument("--rate", type=int, default=1000, help="records a second (default 1000)")
    return parser.parse_args()


def main() -> int:
    """Runs the soak. Returns the exit code: 0 if nothing violated the guarantees."""
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10_000)
    # A JVM that lives for seconds spends a third of them on optimizing code that it won't run again.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    folder = Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    print(f"seed {seed} · logs in {folder}\nKafka starts …", flush=True)
    failed = True
    try:
        soak = Soak(folder, random.Random(seed), arguments.rate)
        try:
            soak.run(arguments.minutes)
        except StuckError as error:
            soak.findings.add(str(error))
        finally:
            soak.close()
        print(soak.summary())
        failed = soak.findings.count > 0
    except PenstockError as error:
        print(f"soak: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    finally:
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"the same choices again: scripts/soak {arguments.minutes:g} --seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
