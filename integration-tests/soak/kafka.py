"""Kafka to Kafka, exactly once, under random kills, for as long as asked for, with a checker.

A job copies numbered records from one topic to another. At random moments the driver with its JVM, one of Spark's
Python processes, or the broker is killed with SIGKILL, and started again. Meanwhile a consumer of committed records
must see every record once, in order within each key; while nothing is killed no transaction may stay open for longer
than a batch; and transactional ids must be used again.
"""

from __future__ import annotations

import argparse
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
from soak.run import Run, StuckError
from soak.supervisor import Supervisor
from soak.transactions import TransactionWatch

PARTITIONS_IN, PARTITIONS_OUT = 4, 3
VICTIMS = {"driver": 40, "worker": 35, "broker": 25}
MOST_SECONDS_DOWN = 5.0


class Soak:
    """One soak, from its first record to its result."""

    def __init__(self, folder: Path, dice: random.Random, rate: int) -> None:
        self.findings = Findings()
        self._dice = dice
        self._broker = kafka_server(folder / "broker").start()
        kafka = KafkaToolbox(self._broker.address)
        source, target = kafka.create_topic("in", PARTITIONS_IN), kafka.create_topic("out", PARTITIONS_OUT)
        feeder = Feeder(self._broker.address, source, rate)
        checker = Checker(self._broker.address, target, PARTITIONS_OUT, self.findings)
        self.transactions = TransactionWatch(self._broker.address, self.findings)
        job = {"brokers": self._broker.address, "in": source, "out": target, "trigger": "0 seconds"}
        # A lost task is tried again, as on a cluster: with local[2] it would end the query.
        job |= {"master": "local[2,4]", "per_trigger": str(60 * rate)}
        self.supervisor = Supervisor(folder, "copy_kafka", job, self.findings)
        self.kills: Counter[str] = Counter()
        self._run = Run(self.supervisor, feeder, checker, self.findings, look=self.transactions.look, line=self._line)

    def run(self, minutes: float) -> None:
        """Kills until the time is over, then waits for the job's end. Raises StuckError."""
        end = self._run.started + minutes * 60
        while time.monotonic() < end:
            # Mostly when the job has recovered and works, now and then so soon that it is hit recovering.
            if self._dice.random() < 0.7:
                self._run.attend(end, calm_seconds=self._dice.uniform(0.5, 15))
            else:
                self._run.attend(min(end, time.monotonic() + self._dice.uniform(0.5, 8)))
            if time.monotonic() < end:
                self._kill_one()
        self._run.finish()
        if self.transactions.oldest_seconds > 0:
            self.findings.add("a transaction is open though there is nothing to write")

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
        self._run.disturb()

    def _killed(self) -> str:
        return ", ".join(f"{self.kills[victim]} {victim}" for victim in VICTIMS)

    def _line(self) -> str:
        oldest = f"oldest open {self.transactions.oldest_seconds:.1f} s"
        return f"killed: {self._killed()} · {self.transactions.ids} ids, {oldest}"

    def close(self) -> None:
        """Stops everything."""
        self.supervisor.stop()
        self._run.checker.stop()
        self.transactions.close()
        self._broker.kill()

    def summary(self) -> str:
        """Returns the result in a few lines."""
        reasons = ", ".join(f"{count} {name}" for name, count in sorted(self.supervisor.reasons.items())) or "none"
        return (
            f"\n{(time.monotonic() - self._run.started) / 60:.1f} minutes · {self.kills.total()} kills "
            f"({self._killed()}); the driver ended by itself: {reasons}\n"
            f"{self.transactions.ids} transactional ids; longest open while nothing was killed: "
            f"{self.transactions.longest_calm_seconds:.1f} s\n{self._run.counts()}"
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
