"""Write-ahead's notes under schedules by chance; and their model beside a real server."""

from __future__ import annotations

import itertools
import random
import uuid

import pytest

from penstock.retry import NO_RETRIES
from penstock.sink import Segment
from penstock_cassandra.sink._committer import CassandraCheckpointCommitter
from suite.cassandra_model import CassandraTarget, ModelClient, ModelNotes
from suite.schedules import check_schedules


@pytest.mark.parametrize(
    "schedules",
    [200, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance(schedules):
    check_schedules(CassandraTarget, schedules, "killed after", "times out", "refused")


@pytest.mark.parametrize(
    "schedules",
    [100, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance_of_a_batch_function(schedules):
    check_schedules(CassandraTarget, schedules, "killed after", in_batch=True)


@pytest.fixture
def table(cassandra):
    """The table of a query's notes on the server, which the committer makes."""
    CassandraCheckpointCommitter(cassandra.client, cassandra.keyspace, "", NO_RETRIES).create()
    return f"{cassandra.keyspace}.penstock_sent_segments"


def noted(cassandra, table, query):
    return cassandra.cql(f"select base, segment from {table} where query = ?", query)


@pytest.mark.parametrize("seed", range(4))
def test_the_model_does_what_a_server_does(cassandra, table, seed):
    """The same writes and deletions by chance, in any order of their stamps: the same rows are there after each."""
    chance, model, query = random.Random(seed), ModelNotes(), uuid.uuid4().hex
    for _ in range(60):
        base, stamp = chance.randrange(8), chance.randrange(1, 20)
        if chance.random() < 0.75:
            cassandra.cql(
                f"insert into {table} (query, base, segment) values (?, ?, 'x') using timestamp ?", query, base, stamp
            )
            model.insert(query, base, "x", stamp)
        else:
            cassandra.cql(f"delete from {table} using timestamp ? where query = ? and base < ?", stamp, query, base)
            model.delete(query, base, stamp)
        assert noted(cassandra, table, query) == model.of(query)


def test_the_committer_has_of_the_model_what_it_has_of_a_server(cassandra, table):
    chance, model, stamps, query = random.Random(1), ModelNotes(), itertools.count(), uuid.uuid4().hex
    there = CassandraCheckpointCommitter(cassandra.client, cassandra.keyspace, query, NO_RETRIES)
    client = ModelClient(lambda label, effect: effect(model, next(stamps)))
    here = CassandraCheckpointCommitter(client, cassandra.keyspace, query, NO_RETRIES)
    segments = [Segment(0, 0, f"{number:032x}", 0, 10, 100, number // 2) for number in range(20)]
    for _ in range(60):
        one, kept = chance.choice(segments), {one.id for one in chance.sample(segments, chance.randrange(2))}
        if chance.random() < 0.7:
            there.record(one)
            here.record(one)
        else:
            there.forget(one.base, kept)
            here.forget(one.base, kept)
        assert [there.is_recorded(one) for one in segments] == [here.is_recorded(one) for one in segments]
        assert noted(cassandra, table, query) == model.of(query)
