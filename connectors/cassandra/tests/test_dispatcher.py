"""What is sent again: what can't do harm, for as long as the option ``retryTimeout`` says."""

from __future__ import annotations

import pytest
from cassandra import OperationTimedOut, Unavailable, WriteTimeout
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.pool import NoConnectionsAvailable

from penstock.errors import RetriableError, RetriesExhaustedError
from penstock.metrics import Metrics
from penstock.retry import RetryPolicy
from penstock_cassandra.client import was_not_applied
from penstock_cassandra.sink._dispatcher import RequestDispatcher
from penstock_cassandra.sink._rows import Request

UNAVAILABLE = Unavailable("too few nodes")
IN_DOUBT = [OperationTimedOut(), WriteTimeout("too few answers", write_type=0), ConnectionShutdown("gone")]


class Future:
    def __init__(self, error):
        self._error = error

    def add_callbacks(self, done, failed):
        done(None) if self._error is None else failed(self._error)


class Session:
    """Answers with the errors given, one after the other, then well."""

    def __init__(self, errors):
        self.errors = list(errors)
        self.sent = 0

    def execute_async(self, batch):
        self.sent += 1
        return Future(self.errors.pop(0) if self.errors else None)


class Client:
    def __init__(self, errors):
        self.session = Session(errors)


class Encoded:
    def __getattr__(self, name):
        return None


class OneRow(Request):
    count = 1
    body = b""
    routing_key = None


def send(errors, *, repeatable, retry_for_s=60.0):
    client, metrics = Client(errors), Metrics()
    dispatcher = RequestDispatcher(
        client, metrics, lambda *_: None, lambda: None, max_in_flight=4, retry=RetryPolicy(retry_for_s),
        rows_per_second=None, repeatable=repeatable,
    )  # fmt: skip
    dispatcher.send(OneRow(Encoded(), 0, 1, None))
    dispatcher.drain()
    return client.session.sent, metrics.snapshot().get("retries", 0)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(RetryPolicy, "pause_s", lambda self, failures: 0.001)


def test_what_was_not_applied_is_sent_again_whatever_the_delivery():
    assert send([UNAVAILABLE] * 3, repeatable=False) == (4, 3)


@pytest.mark.parametrize("error", IN_DOUBT, ids=lambda error: type(error).__name__)
def test_what_is_in_doubt_is_sent_again_only_where_it_does_no_harm(error):
    assert send([error] * 2, repeatable=True) == (3, 2)
    with pytest.raises(RetriableError, match="writing rows"):
        send([error], repeatable=False)


def test_the_time_is_the_option_s():
    with pytest.raises(RetriesExhaustedError, match=r"too few nodes.*; tried \d+ times in \d+ms \(retryTimeout=20ms\)"):
        send([UNAVAILABLE] * 1000, repeatable=True, retry_for_s=0.02)


def test_a_cluster_that_can_not_be_reached_was_sent_nothing():
    nothing = NoHostAvailable("all down", {"a": NoConnectionsAvailable(), "b": UNAVAILABLE})
    in_doubt = NoHostAvailable("all down", {"a": NoConnectionsAvailable(), "b": OperationTimedOut()})
    assert was_not_applied(nothing) and not was_not_applied(in_doubt)


def test_it_is_said_once_for_all_requests_and_once_at_the_end(caplog):
    metrics = Metrics()
    dispatcher = RequestDispatcher(
        Client([UNAVAILABLE] * 3),
        metrics,
        lambda *_: None,
        lambda: None,
        max_in_flight=4,
        retry=RetryPolicy(60),
        rows_per_second=None,
    )
    for _ in range(3):
        dispatcher.send(OneRow(Encoded(), 0, 1, None))
    dispatcher.drain()
    first, last = [record.message for record in caplog.records if record.name == "penstock.retry"]
    assert "too few nodes" in first and "trying again for up to 60s" in first
    assert "it works again" in last and last.endswith("3 more tries")
    assert metrics.snapshot()["retries"] == 3
