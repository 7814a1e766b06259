"""Pravega's committer under schedules by chance; and its model of transactions beside a real server."""

from __future__ import annotations

import random
import time

import pyarrow as pa
import pytest

from penstock.metrics import Metrics
from penstock_pravega.client import (
    NoSuchSegment,
    PingAnswer,
    SegmentStores,
    TransactionState,
    transaction_segment_name,
)
from penstock_pravega.sink._committable import TransactionRef
from penstock_pravega.sink._committer import PravegaCommitter
from penstock_pravega.sink._event_appender import EventAppender
from suite.pravega_model import ModelStream, PravegaTarget
from suite.schedules import check_schedules

LEASE_MS = 60_000


@pytest.mark.parametrize(
    "schedules",
    [300, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance(schedules):
    check_schedules(PravegaTarget, schedules, "killed after", "times out")


@pytest.mark.parametrize(
    "schedules",
    [150, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance_of_a_batch_function(schedules):
    check_schedules(PravegaTarget, schedules, "killed after", in_batch=True)


class Server:
    """Transactions on a real server: what the model does, done there. Events are of one size."""

    def __init__(self, pravega):
        self.pravega, self.name = pravega, pravega.create_stream()
        self.stream = f"{pravega.scope}/{self.name}"
        self.stores = SegmentStores(pravega.settings)
        self.segments = {}

    def begin(self):
        number, self.ranges = self.stores.controller.begin_transaction(self.pravega.scope, self.name, LEASE_MS)
        return number

    def append(self, number, rows):
        def name_of(segment):
            self.segments[number] = segment
            return transaction_segment_name(self.stream, segment, number)

        appender = EventAppender(self.stores, self.stream, self.ranges, name_of)
        try:
            appender.append(pa.array([b"%06d" % row for row in rows], pa.large_binary()), None)
            appender.flush()
        finally:
            appender.close()

    def size(self, number):
        """In events, with a length of 8 bytes before each."""
        segment = next(iter(self.ranges))
        return self.stores.info(self.stream, segment, transaction_segment_name(self.stream, segment, number)).end // 14

    def state(self, number):
        """When it is none that leads to another one."""
        committer = PravegaCommitter(self.stores, None, Metrics(), writer="")
        ref, deadline = TransactionRef(self.stream, number), time.monotonic() + 60
        while (state := committer._settled_state(ref)) is TransactionState.ABORTING:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return state

    def ping(self, number):
        return self.stores.controller.ping_transaction(self.pravega.scope, self.name, number, LEASE_MS)

    def end(self, number, *, commit):
        controller = self.stores.controller
        end = controller.commit_transaction if commit else controller.abort_transaction
        return end(self.pravega.scope, self.name, number)


def told(call, *arguments, **given):
    """What a call answers; a refusal is an answer."""
    try:
        return call(*arguments, **given)
    except NoSuchSegment:
        return NoSuchSegment


@pytest.mark.parametrize("seed", range(4))
def test_the_model_does_what_a_server_does(pravega, seed):
    """The same steps by chance in both: answers, states, sizes and what readers see agree."""
    chance, model, server = random.Random(seed), ModelStream(longest_ms=1000 * LEASE_MS), Server(pravega)
    pairs, row, done = [], 0, set()
    for _ in range(60):
        what = chance.choice(["begin", "append", "append", "ping", "commit", "abort", "size"])
        if what == "begin" or not pairs:
            pairs.append((server.begin(), model.begin(LEASE_MS, 0)))
            continue
        there, here = pairs[-1] if chance.random() < 0.6 else chance.choice(pairs)
        if what == "append":
            rows = list(range(row, row := row + chance.randrange(1, 4)))
            answers = told(server.append, there, rows), told(model.append, here, rows)
        elif what == "ping":
            answers = server.ping(there), model.ping(here, LEASE_MS, 0)
        elif what == "size":
            answers = told(server.size, there), told(model.size, here)
        else:
            answers = (
                server.end(there, commit=what == "commit"),
                model.end(here, commit=what == "commit"),
            )
        done.add((what, str(answers[1])))
        assert answers[0] == answers[1], (what, model.state(here), answers)
        assert server.state(there) == model.state(here)
    assert server.state(12345) == model.state(12345) == TransactionState.UNKNOWN
    assert [int(value) for value in pravega.values(server.name)] == [row for _, row in model.shown]
    assert {("commit", "True"), ("abort", "True"), ("ping", str(PingAnswer.OK))} <= done
    server.stores.close()
