"""Transactional ids, slots, prepared producers, and what coordinators answer."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import weakref

import pytest
from kafka.net.inet import KafkaNetSocket

from penstock.errors import BadConfigurationError, RetriableError
from penstock.metrics import Metrics
from penstock_kafka.client import (
    DeliveryError,
    Ended,
    ProducerFencedError,
    ProducerIdentity,
    Proof,
    TransactionRef,
    open_producer,
)
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.sink._committer import KafkaCommitter
from penstock_kafka.transactions import FIRST_EDITION, ProducerPool, QueryPrefix, SlotLender, forget_slots

RECORDS = [{"value": b"1"}, {"value": b"2"}]


def test_a_prefix_owns_its_own_ids_only():
    query = QueryPrefix("a", "q1")
    assert query.owns(query.transactional_id(3, "01234567", 7))
    assert query.generation_of(query.transactional_id(12, "01234567", 7)) == 12
    assert query.generation_of("a.q1.01234567.7") == FIRST_EDITION
    others = [QueryPrefix("a", "q10"), QueryPrefix("a.q1", "0123abcd"), QueryPrefix("b", "q1"), QueryPrefix("", "a.q1")]
    assert not [other for other in others if query.owns(other.transactional_id(3, "0123abcd", 7))]
    assert not query.owns("a.q1.by-hand") and not query.owns("a.q1.3.0123abcd.7.more")
    assert query.generation_of("a.q1.by-hand") is None


HOLD = """
import sys, time
from pathlib import Path
from penstock_kafka.transactions import QueryPrefix, SlotLender
lender = SlotLender(QueryPrefix("p", "q"), 3, Path(sys.argv[1]))
print(lender.lend(7).transactional_id, flush=True)
time.sleep(60)
"""


def test_slots_are_lent_to_living_processes_and_used_again(tmp_path):
    mine = SlotLender(QueryPrefix("p", "q"), 3, tmp_path)
    first = mine.lend(7).transactional_id
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        other = holder.stdout.readline().strip()
        assert (first[-2:], other[-2:]) == (".0", ".1")
        third = mine.lend(7).transactional_id
        assert third.endswith(".2")
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(7).transactional_id == other
    assert SlotLender(QueryPrefix("p", "q2"), 3, tmp_path).lend(7).transactional_id.endswith(".0")


def test_slots_are_in_folders_of_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        slot = SlotLender(QueryPrefix("p", "q"), 3).lend(7)
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in sorted(tmp_path.rglob("*"))]
    assert slot.transactional_id.endswith(".0") and modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("planted", ["a link", "a folder that others can write", "a folder of somebody else"])
def test_what_others_have_put_there_is_refused(tmp_path, monkeypatch, planted):
    """Anybody can make a folder of that name, and links in it: the victim would write where they lead."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own, elsewhere = tmp_path / f"penstock-kafka-{os.geteuid()}", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if planted == "a link":
        own.symlink_to(elsewhere)
    else:
        own.mkdir()
        own.chmod(0o777 if "write" in planted else 0o700)
    real = os.geteuid()
    if "somebody" in planted:
        monkeypatch.setattr("penstock_kafka.transactions._slots.os.geteuid", lambda: real + 1)
        own.rename(tmp_path / f"penstock-kafka-{real + 1}")
    with pytest.raises(BadConfigurationError, match="remove it, or set TMPDIR"):
        SlotLender(QueryPrefix("p", "q"), 3)
    forget_slots(QueryPrefix("p", "q"))
    assert list(elsewhere.iterdir()) == []


def test_a_slot_is_never_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lender = SlotLender(QueryPrefix("p", "q"), 3, tmp_path / "slots")
    (lender._folder / "3.0.slot").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        lender.lend(7)
    assert victim.read_text() == "precious"


TRANSACT = """
import os, signal, sys
from pathlib import Path
from penstock_kafka.transactions import QueryPrefix, SlotLender
slot = SlotLender(QueryPrefix("p", "q"), 3, Path(sys.argv[1])).lend(7)
slot.use(7)
print(slot.transactional_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_slot_whose_process_died_is_not_lent_again_in_the_same_batch(tmp_path):
    """Its transaction may be a part of the batch: registering the id again would abort it."""
    died = subprocess.run([sys.executable, "-c", TRANSACT, str(tmp_path)], capture_output=True, text=True)
    used = died.stdout.strip()
    assert used.endswith(".0")
    assert SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(7).transactional_id.endswith(".1")
    assert SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(6).transactional_id.endswith(".1"), "a sleeper's"
    assert SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(8).transactional_id == used
    assert SlotLender(QueryPrefix("p", "q"), 4, tmp_path).lend(7).transactional_id.endswith(".0")


REGISTER = """
import os, signal, sys
from pathlib import Path
from penstock_kafka.transactions import QueryPrefix, SlotLender
slot = SlotLender(QueryPrefix("p", "q"), 3, Path(sys.argv[1])).lend(7)
print(slot.transactional_id, flush=True)
with slot.registering():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_id_whose_registration_was_not_answered_is_never_used_again(tmp_path):
    """The request may arrive in a later batch, and would end the transaction that the id has then."""
    died = subprocess.run([sys.executable, "-c", REGISTER, str(tmp_path)], capture_output=True, text=True)
    slot = SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(8)
    given_up = [died.stdout.strip(), slot.transactional_id]
    assert given_up[0].endswith(".0") and given_up[1].endswith(".0") and given_up[0] != given_up[1]
    with pytest.raises(RetriableError), slot.registering():
        raise RetriableError("no answer")
    assert slot.transactional_id not in given_up
    with slot.registering():
        registered = slot.transactional_id
    slot.close()
    assert SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(8).transactional_id == registered


class AnswersInTheEnd:
    """A producer whose first requests to register are not answered."""

    def __init__(self, doubts):
        self.doubts, self.closed = doubts, 0

    def init_transactions(self, timeout_ms):
        return ProducerIdentity(1000, 0, in_doubt=self.doubts.pop() if self.doubts else False)

    def close(self):
        self.closed += 1


def test_a_registration_that_was_repeated_gets_another_id(tmp_path):
    doubts, opened = [True, True], []

    def open_producer(transactional_id):
        opened.append((transactional_id, AnswersInTheEnd(doubts)))
        return opened[-1][1]

    pool = ProducerPool(SlotLender(QueryPrefix("p", "q"), 0, tmp_path), open_producer)
    ready = pool.take(0)
    pool.close()
    ids = [name for name, _ in opened]
    assert len(set(ids[:3])) == 3 and ready.slot.transactional_id == ids[2]
    assert [producer.closed for _, producer in opened[:3]] == [1, 1, 0]
    doubts += [True] * 100
    with pytest.raises(RetriableError, match="stays unanswered"):
        ProducerPool(SlotLender(QueryPrefix("p", "q"), 1, tmp_path), open_producer).take(0)


def unused_for_a_day(folder):
    yesterday = time.time() - 86_401
    os.utime(folder, (yesterday, yesterday))


def test_folders_that_nothing_has_used_for_a_day_are_removed(tmp_path):
    folders, old = {}, SlotLender(QueryPrefix("p", "living"), 3, tmp_path)
    kept = old.lend(7)
    for query in ("living", "old", "new"):
        SlotLender(QueryPrefix("p", query), 3, tmp_path).lend(7)
        (folders[query],) = set(tmp_path.iterdir()) - set(folders.values())
    unused_for_a_day(folders["old"])
    unused_for_a_day(folders["living"])
    SlotLender(QueryPrefix("p", "mine"), 3, tmp_path)
    assert not folders["old"].exists() and folders["new"].exists()
    assert len(list(folders["living"].iterdir())) == 1, "its process lives"
    unused_for_a_day(folders["living"])
    kept.use(8)
    old.close()
    SlotLender(QueryPrefix("p", "another"), 3, tmp_path)
    assert folders["living"].exists(), "it was used just now"


def test_what_a_batch_write_has_had_is_removed_when_it_is_done(kafka, tmp_path, monkeypatch):
    """On this machine; what a worker still holds goes with the next query that starts there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done, held = QueryPrefix("p", "done"), SlotLender(QueryPrefix("p", "held"), 0)
    held.lend(0)
    SlotLender(done, 0).lend(0).use(0)
    (home,) = tmp_path.glob("penstock-kafka-*")
    coordinators = Coordinators({"bootstrap.servers": kafka.address})
    for prefix in (done, held._prefix):
        KafkaCommitter(coordinators, prefix, Metrics()).leave()
    coordinators.close()
    (left,) = home.iterdir()
    assert [path.name for path in left.iterdir()] == ["0.0.slot"]
    held.close()
    SlotLender(QueryPrefix("p", "next"), 0)
    assert not left.exists()


def test_what_can_not_be_removed_is_left_and_fails_nothing(tmp_path):
    """A directory that is none of ours: a write that is done does not fail for it."""
    old = QueryPrefix("p", "old")
    SlotLender(old, 3, tmp_path).lend(7)
    (folder,) = tmp_path.iterdir()
    (folder / "somebody's").mkdir()
    unused_for_a_day(folder)
    SlotLender(QueryPrefix("p", "next"), 3, tmp_path)
    forget_slots(old, tmp_path)
    assert (folder / "somebody's").exists()


def test_slots_of_earlier_generations_are_removed_unless_they_are_in_use(tmp_path):
    earlier = SlotLender(QueryPrefix("p", "q"), 9, tmp_path)
    in_use = [earlier.lend(7), earlier.lend(7)]
    in_use.pop().close()
    SlotLender(QueryPrefix("p", "q"), 10, tmp_path).lend(11)
    (folder,) = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["10.0.slot", "9.0.slot"]


@pytest.mark.parametrize("removed", ["file", "folder"])
def test_a_slot_whose_file_was_removed_is_still_nobody_elses(tmp_path, removed):
    """As cleaners of temporary files do, whatever is locked in them."""
    first = SlotLender(QueryPrefix("p", "q"), 3, tmp_path)
    lent = first.lend(7)
    (folder,) = tmp_path.iterdir()
    if removed == "file":
        (folder / "3.0.slot").unlink()
    else:
        shutil.rmtree(folder)
    other = SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(7)
    assert other.transactional_id != lent.transactional_id
    lent.use(8)
    assert not lent.is_free(8) and first.lend(8).transactional_id not in (lent.transactional_id, other.transactional_id)


def test_a_slot_is_not_lent_by_a_file_that_was_removed_before_it_was_locked(tmp_path, monkeypatch):
    """The next process would not see the lock."""
    lender, real, removed = SlotLender(QueryPrefix("p", "q"), 3, tmp_path), fcntl.flock, []

    def flock(descriptor, operation):
        for path in tmp_path.glob("*/*.slot"):
            if not removed:
                removed.append(path)
                path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", flock)
    lent = lender.lend(7)
    assert removed and removed[0].exists()
    assert SlotLender(QueryPrefix("p", "q"), 3, tmp_path).lend(7).transactional_id[-2:] == ".1", lent


def test_a_file_that_was_locked_meanwhile_is_not_removed(tmp_path, monkeypatch):
    """The sweeper sees nobody, and somebody comes before it removes the folder."""
    old = QueryPrefix("p", "old")
    SlotLender(old, 3, tmp_path).lend(7)
    (folder,) = tmp_path.iterdir()
    unused_for_a_day(folder)
    real, came = os.unlink, []

    def unlink(path, *given, **named):
        if not came:
            came.append(SlotLender(old, 3, tmp_path).lend(7))
        real(path, *given, **named)

    monkeypatch.setattr("os.unlink", unlink)
    SlotLender(QueryPrefix("p", "sweeps"), 3, tmp_path)
    assert came[0].transactional_id[-2:] == ".1", "the sweeper had the first"
    assert [path.name for path in folder.iterdir()] == ["3.1.slot"]


def test_machines_with_temporary_directories_of_their_own_share_no_id(tmp_path):
    prefix = QueryPrefix("p", "q")
    one, two = (SlotLender(prefix, 3, tmp_path / name).lend(7).transactional_id for name in ("one", "two"))
    assert one != two and prefix.owns(one) and prefix.owns(two)


@pytest.fixture
def coordinators(kafka):
    asked = Coordinators({"bootstrap.servers": kafka.address})
    yield asked
    asked.close()


@pytest.fixture
def prefix():
    return QueryPrefix("test", uuid.uuid4().hex)


@pytest.fixture
def open_transaction(kafka, prefix):
    """Opens, writes and flushes a transaction as a task does, in a slot of the given number."""
    opened = []

    def begin(topic, slot=0, proof=None, records=2, timeout_ms=60_000):
        transactional_id = prefix.transactional_id(3, "0123abcd", slot)
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": str(timeout_ms)}
        producer = open_producer({"bootstrap.servers": kafka.address, **settings})
        opened.append(producer)
        identity = producer.init_transactions(30_000)
        producer.begin_transaction()
        producer.produce(batch_of(topic, records))
        if proof is not None:
            producer.send_offset(transactional_id, topic, 0, proof.offset, proof.metadata, 30_000)
        producer.flush()
        return producer, TransactionRef(transactional_id, identity.producer_id, identity.epoch)

    yield begin
    for producer in opened:
        producer.close()


def batch_of(topic, records):
    import pyarrow as pa

    values = [b"%d" % number for number in range(records)]
    return pa.record_batch({"value": pa.array(values, pa.binary()), "topic": pa.array([topic] * records, pa.string())})


def committed(kafka, topic, count):
    """Returns the records once ``count`` are there: a coordinator answers before it has told the partitions."""
    deadline = time.monotonic() + 60
    while len(records := kafka.read(topic)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return records


def write_and_flush(producer, topic):
    producer.produce(batch_of(topic, 2))
    producer.flush()


def test_ending_is_idempotent_and_tells_what_was_over(kafka, coordinators, open_transaction):
    topic = kafka.create_topic()
    refs = [open_transaction(topic, slot)[1] for slot in range(3)]
    assert kafka.read(topic) == []
    assert coordinators.end(refs[:2], commit=True) == [Ended.DONE, Ended.DONE]
    assert coordinators.end(refs[:2], commit=True) == [Ended.DONE, Ended.DONE]
    assert coordinators.end(refs[:2], commit=False) == [Ended.OVER, Ended.OVER]
    assert coordinators.end(refs[2:], commit=False) == [Ended.DONE]
    assert coordinators.end(refs[2:], commit=True) == [Ended.OVER]
    assert coordinators.end([TransactionRef("never-heard-of", 999_999, 0)], commit=True) == [Ended.OVER]
    assert len(committed(kafka, topic, 4)) == 4


def test_a_late_request_never_ends_the_next_transaction_of_an_id(kafka, coordinators, open_transaction):
    topic = kafka.create_topic()
    _, first = open_transaction(topic)
    coordinators.end([first], commit=True)
    _, second = open_transaction(topic)
    assert second.transactional_id == first.transactional_id and second != first
    assert coordinators.end([first], commit=True) == [Ended.OVER]
    assert len(committed(kafka, topic, 2)) == 2
    assert coordinators.end([second], commit=True) == [Ended.DONE]


def test_open_ids_are_listed_and_a_fenced_producer_can_write_no_more(kafka, coordinators, open_transaction, prefix):
    topic = kafka.create_topic()
    producer, ref = open_transaction(topic)
    assert coordinators.open_ids(prefix.owns) == [ref.transactional_id]
    assert coordinators.open_ids(QueryPrefix("test", "another").owns) == []
    described = coordinators.describe([ref.transactional_id, "never-heard-of"])
    assert list(described) == [ref.transactional_id]
    one = described[ref.transactional_id]
    assert (one.ref, one.state, one.timeout_ms) == (ref, "Ongoing", 60_000) and (topic, 0) in one.partitions
    coordinators.fence(ref.transactional_id)
    assert coordinators.open_ids(prefix.owns) == []
    with pytest.raises((ProducerFencedError, DeliveryError)):
        write_and_flush(producer, topic)
    assert coordinators.end([ref], commit=True) == [Ended.OVER]
    assert kafka.read(topic) == []


def test_a_proof_is_there_only_after_a_commit(kafka, coordinators, open_transaction):
    topic = kafka.create_topic()
    _, committed = open_transaction(topic, 0, Proof(7, "attempt-a"))
    _, aborted = open_transaction(topic, 1, Proof(7, "attempt-b"))
    groups = [committed.transactional_id, aborted.transactional_id]
    assert coordinators.proofs(groups) == {}
    coordinators.end([committed], commit=True)
    coordinators.end([aborted], commit=False)
    deadline = time.monotonic() + 60
    while not coordinators.proofs(groups) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert coordinators.proofs(groups) == {committed.transactional_id: Proof(7, "attempt-a")}


def test_brokers_that_are_away_are_a_retriable_error(monkeypatch):
    monkeypatch.setattr("penstock_kafka.client.broker._retrying._TRIES_FOR_S", 0.3)
    monkeypatch.setattr("penstock_kafka.client.broker._pool._FIRST_CONNECT_MS", 100)
    with pytest.raises(RetriableError, match="nothing is lost"):
        Coordinators({"bootstrap.servers": "127.0.0.1:1"}).open_ids(lambda _: True)


def test_what_brokers_are_set_to(coordinators):
    assert int(coordinators.broker_setting("transaction.max.timeout.ms")) > 0
    assert coordinators.broker_setting("no.such.setting") is None


@pytest.fixture
def pool(kafka, prefix, tmp_path):
    def open_one(transactional_id):
        return open_producer({"bootstrap.servers": kafka.address, "transactional.id": transactional_id})

    made = ProducerPool(SlotLender(prefix, 3, tmp_path), open_one)
    yield made
    made.close()


def test_a_pool_never_uses_a_slot_twice_in_a_batch_and_few_in_all(kafka, coordinators, pool):
    topic = kafka.create_topic()
    ids = set()
    for batch in range(8):
        refs = []
        for _ in range(3):
            ready = pool.take(batch)
            ready.producer.begin_transaction()
            ready.producer.produce(batch_of(topic, 1))
            ready.producer.flush()
            refs.append(ready.ref)
            pool.retire(ready)
        assert len({ref.transactional_id for ref in refs}) == 3
        assert coordinators.end(refs, commit=True) == [Ended.DONE] * 3
        ids |= {ref.transactional_id for ref in refs}
    assert len(committed(kafka, topic, 24)) == 24
    assert len(ids) <= 7, "a batch's three, those of the batch before, and one in advance"


def test_the_next_producer_is_ready_before_it_is_asked_for(pool):
    first = pool.take(7)
    prepared = pool._next.result()
    second = pool.take(8)
    assert second is prepared
    for ready in (first, second):
        pool.retire(ready)


def test_a_pool_goes_on_after_a_failure(kafka, prefix, tmp_path):
    fails = [True]

    def open_one(transactional_id):
        if fails.pop() if fails else False:
            raise BadConfigurationError("not yet")
        return open_producer({"bootstrap.servers": kafka.address, "transactional.id": transactional_id})

    pool = ProducerPool(SlotLender(prefix, 3, tmp_path), open_one)
    with pytest.raises(BadConfigurationError):
        pool.take(7)
    ready = pool.take(7)
    assert ready.slot.transactional_id.endswith(".0")
    pool.retire(ready)
    pool.close()


def test_brokers_that_stay_away_cost_no_files(breakable, monkeypatch):
    """kafka-python goes on trying, in a thread of its own, as long as the connections are kept.

    Only its own sockets count: clients of other tests may be trying, too.
    """
    client = f"away-{uuid.uuid4().hex}"
    asked = Coordinators({"bootstrap.servers": breakable.address, "client.id": client})
    sockets, tries, new_socket = [], threading.Semaphore(0), KafkaNetSocket.socket

    def made(*given):
        socket = new_socket(*given)
        if client in threading.current_thread().name:
            sockets.append(weakref.ref(socket))
            tries.release()
        return socket

    monkeypatch.setattr(KafkaNetSocket, "socket", made)
    try:
        assert asked.open_ids(lambda _: True) == []
        breakable.kill()
        gc.disable()
        connected = len(sockets)
        assert connected
        for _ in range(5):
            asked._brokers._kept.client._admin._manager.cluster.request_update()
            while len(sockets) == connected:
                assert tries.acquire(timeout=30)
            connected = len(sockets)
        alive = [socket for one in sockets if (socket := one()) is not None]
        assert sum(socket.fileno() != -1 for socket in alive) <= 1, "the one that is being tried"
    finally:
        gc.enable()
        asked.close()
