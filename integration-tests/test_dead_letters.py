"""Kafka into a sink with dead letters, under SIGKILL of the driver: each record once, in exactly one of the two."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from harness.oracle import check_once, rows_of
from suite.letters import LETTER_TABLE, letters_in

LOG, PROTOCOL = "penstock._commit._chain:Chain", "penstock._commit._two_phase:TwoPhaseCommit"
COMMITTER = "penstock_kafka.sink._committer:KafkaCommitter"
WRITER = "penstock_kafka.sink._writer:KafkaTransactionalWriter"
RENAME = "penstock_filesystem.sink.staging._rename:RenameCommitter"
ROWS = "penstock_cassandra.sink._row_writer:RowWriter"

#: In the order in which a batch goes through them. The number says at which call of the run.
POINTS = {
    "kafka": [
        f"{WRITER}.write_other:after:1",
        f"{WRITER}.prepare_commit:after:2",
        f"{LOG}.create:after:2",
        f"{COMMITTER}.publish:after:1",
        f"{PROTOCOL}.commit:after:2",
    ],
    "filesystem": [
        f"{PROTOCOL}.plan:after:1",
        f"{LOG}.create:after:2",
        f"{RENAME}._publish:before:1",
        f"{RENAME}.publish:after:1",
        f"{LOG}.mark_done:after:1",
    ],
    "cassandra": [
        f"{ROWS}.write:after:1",
        f"{ROWS}.flush:after:1",
        f"{ROWS}.flush:after:2",
        f"{LOG}.create:after:2",
        f"{PROTOCOL}.commit:after:1",
    ],
}


class Route:
    """A topic to feed, a job that routes it, and where its two outputs are."""

    def __init__(self, to, kafka, cassandra, folder):
        self.to, self._kafka, self._cassandra, self._folder = to, kafka, cassandra, folder
        self._source = kafka.create_topic(partitions=2)
        self._good, self._bad, self._next = [], [], 0
        self.job = {"brokers": kafka.address, "in": self._source, "to": to}
        if to == "kafka":
            self._out, self._letters = kafka.create_topic(partitions=2), kafka.create_topic()
            sink = {"kafka.bootstrap.servers": kafka.address, "topic": self._out, "delivery": "exactly-once"}
            sink |= {"deadLetters.format": "kafka", "deadLetters.topic": self._letters}
        elif to == "filesystem":
            sink = {"path": "out/", "bucketAssigner": "basePath", "rollOnCheckpoint": "true"}
            sink |= {"deadLetters.format": "filesystem", "deadLetters.path": "bad/"}
        else:
            self._out, self._letters = (
                cassandra.table("id bigint primary key, note text"),
                cassandra.table(LETTER_TABLE),
            )
            sink = {**cassandra.options, "table": self._out, "maxRowBytes": "10kb"}
            sink |= {"deadLetters.format": "cassandra", "deadLetters.table": self._letters}
        self.job |= {f"sink.{name}": text for name, text in sink.items()}

    def feed(self, count):
        """Every third record can't be decoded; for Cassandra every seventh one of the others is too large."""
        records = []
        for number in range(self._next, self._next + count):
            is_large = self.to == "cassandra" and number % 7 == 0
            text = json.dumps({"id": number, "note": "x" * 20_000 if is_large else "n"})
            is_bad = number % 3 == 0
            records.append({"key": f"k{number}", "value": f"bad {number}" if is_bad else text})
            (self._bad if is_bad or is_large else self._good).append(number)
        self._kafka.produce(self._source, records)
        self._next += count

    def seen(self):
        """Returns the numbers of the rows, and of the letters."""
        if self.to == "kafka":
            rows = [int(record.value) for record in self._kafka.read(self._out)]
            return rows, [_number(record.value) for record in self._kafka.read(self._letters)]
        if self.to == "filesystem":
            rows = [int(value) for value in rows_of(self._folder / "out", "value").elements()]
            return rows, [_number(letter["value"]) for letter in letters_in(self._folder / "bad")]
        rows = [number for (number,) in self._cassandra.rows(self._out, "id")]
        return rows, [_number(value) for (value,) in self._cassandra.rows(self._letters, "value")]

    def check(self):
        rows, letters = self.seen()
        check_once(rows, self._good)
        check_once(letters, self._bad)

    def check_nothing_is_twice(self, after):
        rows, letters = self.seen()
        repeated = [number for number, count in Counter([*rows, *letters]).items() if count > 1]
        assert not repeated, f"duplicated after {after}: {repeated[:5]}"


def _number(value):
    """Of a record that could not be decoded, or of a row that was refused."""
    return int(value[4:]) if value.startswith(b"bad ") else json.loads(value)["id"]


@pytest.fixture
def route(kafka, cassandra, tmp_path):
    return lambda to: Route(to, kafka, cassandra, tmp_path)


@pytest.mark.exhaustive("drivers; test_each_record_is_once_in_one_of_the_two_whatever_crashes is the witness")
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_driver_is_killed_between_rows_and_letters(driver, route):
    """The rows of the first batch are there, its letters are decided and hidden."""
    one = route("filesystem")
    one.feed(100)
    driver("route_letters", fault=f"{RENAME}.publish:after:1", **one.job).wait_for_kill()
    one.check_nothing_is_twice("the kill")
    driver("route_letters", **one.job).wait_for_success()
    one.check()


@pytest.mark.exhaustive("drivers; test_each_record_is_once_in_one_of_the_two_whatever_crashes is the witness")
@pytest.mark.parametrize("to", POINTS)
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_a_driver_is_killed_at_every_step(driver, route, to):
    """One query, killed at each point in turn, with new records before every start."""
    one = route(to)
    for point in POINTS[to]:
        one.feed(100)
        driver("route_letters", fault=point, **one.job).wait_for_kill()
        one.check_nothing_is_twice(point)
    one.feed(30)
    driver("route_letters", **one.job).wait_for_success()
    one.check()
