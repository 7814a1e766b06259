"""The soak's checker finds what it is there for. The soak itself is ``scripts/soak``."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

import soak.every
import soak.kafka
import soak.servers
import soak.simulate
from harness.waiting import wait_until
from soak import simulated, transactions
from soak.findings import Findings
from soak.records import KEYS, Checker, Feeder, Tally
from soak.transactions import TransactionWatch

SOAK = Path(__file__).parents[1] / "scripts" / "soak"


@pytest.mark.parametrize(
    "module", [soak.kafka, soak.every, soak.servers, soak.simulate], ids=lambda module: module.__name__
)
def test_it_starts(module):
    """By itself: with nothing of what pytest finds for us."""
    words = [] if module is soak.kafka else [module.__name__.removeprefix("soak.")]
    done = subprocess.run([SOAK, *words, "--help"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "--seed" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["sink/_sink.py", "spark/_write.py", "retry.py"])
def test_schedules_are_counted_until_the_protocol_changes(tmp_path, name):
    path, code = tmp_path / "simulated.json", tmp_path / "core/src/penstock" / name
    code.parent.mkdir(parents=True)
    code.write_text("one")
    assert simulated.record(100, 7, path, tmp_path) == 100
    assert simulated.record(50, 3, path, tmp_path) == 150
    assert json.loads(path.read_text())["processes killed"] == 10
    code.write_text("two")
    assert simulated.record(20, 1, path, tmp_path) == 20


def test_the_code_whose_schedules_are_counted_is_there():
    assert all((simulated.ROOT / name).exists() for name in simulated._CODE)


@pytest.fixture
def check(kafka):
    """Runs the checker over values in a topic; gives what it found."""

    def run(values):
        topic, findings = kafka.create_topic(), Findings()
        kafka.produce(topic, [{"key": value.partition(":")[0], "value": value} for value in values])
        checker = Checker(kafka.address, topic, 1, findings)
        checker.start()
        wait_until(lambda: checker.records >= len(values), timeout=60)
        checker.stop()
        return checker.records, checker.lost, checker.doubled, findings.count

    return run


@pytest.mark.parametrize(
    ("values", "lost", "doubled"),
    [
        (["k0:0", "k1:0", "k0:1", "k1:1"], 0, 0),
        (["k0:0", "k0:2", "k0:3"], 1, 0),
        (["k0:0", "k0:0", "k0:1"], 0, 1),
        (["k0:1", "k0:0"], 1, 1),
    ],
    ids=["fine", "lost", "doubled", "order"],
)
def test_checker_finds(check, values, lost, doubled):
    assert check(values) == (len(values), lost, doubled, lost + doubled)


def test_feeder_numbers_each_key(kafka, check):
    topic = kafka.create_topic()
    feeder = Feeder(kafka.address, topic, 1000)
    feeder.start()
    time.sleep(0.5)
    feeder.stop()
    written = [record.value.decode() for record in kafka.read(topic)]
    assert len(written) == feeder.fed > 0 and set(feeder.next) == set(KEYS)
    assert check(written) == (len(written), 0, 0, 0)


def test_open_transaction_is_found(kafka, monkeypatch):
    topic, prefix = kafka.create_topic(), f"soak-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"{prefix}.0"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush()
    findings = Findings()
    watch = TransactionWatch(kafka.address, findings, prefix)
    try:
        watch.look(1000.0)
        assert (watch.oldest_seconds > 0, watch.ids, findings.count) == (True, 1, 0)
        monkeypatch.setattr(transactions, "LONGEST_BATCH_SECONDS", 0.0)
        watch.look(0.0)
        assert findings.count == 0, "something had just been killed"
        watch.look(1000.0)
        assert findings.count == 1
        monkeypatch.setattr(transactions, "MOST_IDS", 0)
        watch.look(0.0)
        assert findings.count == 2
    finally:
        watch.close()
        producer.abort_transaction(30)


def test_what_comes_early_waits_for_the_gap():
    findings = Findings()
    tally = Tally(findings, ordered=False)
    tally.note(["k0:1", "k0:0", "k1:2", "k1:0"])
    assert (tally.next["k0"], tally.next["k1"], tally.records, findings.count) == (2, 1, 4, 0)
    tally.note(["k0:1", "k1:2"])
    assert (tally.doubled, findings.count) == (2, 2)
    tally.miss()
    assert (tally.lost, findings.count) == (1, 3)
