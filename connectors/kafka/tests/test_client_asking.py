"""Asking brokers with patience: over connections that are shared, lost, and given up by others."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
import uuid
from contextlib import closing, suppress

import pytest
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, NotCoordinatorError

from penstock.errors import BadConfigurationError, RetriableError
from penstock_kafka.client.broker import (
    KafkaAdmin,
    ProblemError,
    RetryingBrokers,
    _admin,
    _coordinators,
    _pool,
    acquire,
    release,
)
from penstock_kafka.client.broker._arguments import kafka_python_arguments
from penstock_kafka.client.broker._kafka_python import connect
from penstock_kafka.client.broker._settings import CONNECTION_SETTINGS
from penstock_kafka.config import files_of


@pytest.fixture
def asked(kafka, request):
    """Asks a real broker, over connections that no other test uses."""
    brokers = RetryingBrokers({"bootstrap.servers": kafka.address, "client.id": request.node.name}, patience_s=10)
    yield brokers
    brokers.close()


@pytest.fixture
def silent():
    """The address of one that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def questions(*errors):
    """A question that fails with each error in turn, then returns the connections over which it was asked."""
    left, tried = list(errors), []

    async def question(brokers):
        tried.append(brokers)
        if left:
            raise left.pop(0)
        return brokers

    return question, tried


def test_an_answer_that_passes_keeps_the_connections_and_a_lost_connection_does_not(asked):
    question, tried = questions(NotCoordinatorError(), KafkaConnectionError("gone"))
    assert asked.ask(question, "ask") is tried[2]
    assert tried[0] is tried[1] is not tried[2]
    assert asked.ask(questions()[0], "ask") is tried[2], "kept for the next question"


def test_patience_grows_while_no_question_is_answered(silent):
    brokers = RetryingBrokers({"bootstrap.servers": silent}, patience_s=0.1)
    for patience in ("0.1", "0.2", "0.4"):
        with pytest.raises(RetriableError, match=rf"within {patience} s"):
            brokers.ask(questions()[0], "ask")
    brokers.close()


def test_over_a_slow_network_one_connection_answers_in_the_end(kafka, request):
    settings = {"bootstrap.servers": kafka.address, "client.id": request.node.name}
    brokers = RetryingBrokers(settings, patience_s=0.1, first_try_s=0.01)
    tried = []

    async def slow(brokers):
        tried.append(brokers)
        await brokers.client.sleep(0.3)
        return brokers

    with closing(brokers):
        for _ in range(10):
            with suppress(RetriableError):
                brokers.ask(slow, "ask")
                break
        before = len(tried)
        brokers.ask(slow, "ask")
        assert tried[before:] == tried[before - 1 : before], "asked once more, over the same connections"


def test_a_thread_that_gives_the_connections_up_does_not_close_them_under_another(asked):
    asking, go_on = threading.Event(), threading.Event()

    async def slow(brokers):
        asking.set()
        while not go_on.is_set():
            await brokers.client.sleep(0.01)
        return brokers.client.nodes()

    found = []
    thread = threading.Thread(target=lambda: found.append(asked.ask(slow, "ask slowly")))
    thread.start()
    asking.wait(60)
    asked.ask(questions(KafkaConnectionError("gone"))[0], "ask")
    asked.close()
    go_on.set()
    thread.join(60)
    assert len(found) == 1 and found[0]
    assert asked._kept is None, "the question has outlived the closing, and keeps nothing open"


def test_a_broker_that_is_silent_is_given_up_in_time(silent):
    admin = KafkaAdmin({"bootstrap.servers": silent}, read_committed=True, patience_s=0.5)
    with pytest.raises(RetriableError, match=rf"within 0\.5 s: no answer from the brokers at {silent}"):
        admin.topic_names()
    assert admin._brokers._kept is None


def test_nobody_waits_longer_for_the_thread_that_connects_than_for_the_brokers(silent):
    connections = acquire((("bootstrap.servers", silent),))

    def connect():
        with pytest.raises(ProblemError):
            connections.open(time.monotonic() + 1.5)

    thread = threading.Thread(target=connect)
    thread.start()
    while not connections._connecting.locked():
        time.sleep(0.01)
    with pytest.raises(ProblemError, match="another thread") as error:
        connections.open(time.monotonic() + 0.2)
    assert error.value.timed_out and thread.is_alive()
    thread.join(60)
    release(connections, useful=False)


def test_who_waits_for_the_thread_that_connects_knows_what_it_has_seen():
    connections = acquire((("bootstrap.servers", "127.0.0.1:1"),))
    with pytest.raises(ProblemError, match="refused"):
        connections.open(time.monotonic() + 0.2)
    with connections._connecting, pytest.raises(ProblemError, match="refused") as error:
        connections.open(time.monotonic() + 0.1)
    assert error.value.timed_out
    release(connections, useful=False)


def test_settings_that_are_wrong_leave_no_connections(kafka):
    admin = KafkaAdmin({"bootstrap.servers": kafka.address, "socket.timeout.ms": "soon"}, read_committed=True)
    with pytest.raises(BadConfigurationError, match=r"socket\.timeout\.ms"):
        admin.topic_names()
    assert not [key for key in list(_pool._shared.keys()) if ("socket.timeout.ms", "soon") in key]


def test_renewed_certificates_get_new_connections(tmp_path):
    certificate = tmp_path / "client.pem"

    def renew(age_s):
        certificate.write_text("")
        os.utime(certificate, (time.time() - age_s,) * 2)

    settings = (("bootstrap.servers", "127.0.0.1:1"), ("ssl.certificate.location", str(certificate)))
    renew(60)
    first = acquire(settings)
    again = acquire(settings)
    assert again is first
    renew(30)
    second = acquire(settings)
    assert second is not first
    for connections in (first, first, second):
        release(connections, useful=True)
    assert settings not in _pool._shared.keys()  # noqa: SIM118 - it is no dictionary


def test_every_setting_that_names_a_file_is_watched():
    settings = CONNECTION_SETTINGS.split()
    named = {name for name in settings if name.endswith(("location", "file", "keytab"))}
    assert set(files_of((name, name) for name in settings)) == named
    assert {"ssl.ca.location", "ssl.key.location", "sasl.oauthbearer.assertion.private.key.file"} <= named


def test_admins_and_coordinators_of_other_settings_make_room(kafka):
    for kept in (_admin._kept, _coordinators._kept):
        kept.clear()
        first = kept.get((("bootstrap.servers", kafka.address), ("client.id", "first")))
        first._brokers.ask(questions()[0], "ask")
        assert first._brokers._kept is not None
        for number in range(52):
            kept.get((("bootstrap.servers", kafka.address), ("client.id", f"other-{number}")))
        assert first._brokers._kept is None and len(kept.keys()) == 16
        assert first._brokers.ask(questions()[0], "ask") is first._brokers._kept, "it connects again"
        first.close()
        kept.clear()


def test_a_part_of_a_question_has_a_time_limit(asked):
    async def question(connections):
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError):
            await connections.client.within(100, connections.client.sleep, 60)
        assert await connections.client.within(10_000, connections.client.sleep, 0.01) is None
        return time.monotonic() - began

    assert asked.ask(question, "to wait") < 10


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_try_to_connect_that_fails_leaves_nothing_behind(is_silent):
    """A driver whose brokers are away makes thousands of them: each would leave a thread and three files."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not is_silent:
            server.close()
        name = f"away-{uuid.uuid4().hex}"
        arguments = kafka_python_arguments({"bootstrap.servers": f"127.0.0.1:{port}", "client.id": name})
        files = _files()
        for _ in range(5):
            with pytest.raises((KafkaError, OSError)):
                connect(arguments, 100)
        assert not [thread.name for thread in threading.enumerate() if name in thread.name]
        gc.collect()
        assert _files() - files <= 1, "of another test's thread"


def _files():
    return len(os.listdir("/proc/self/fd"))
