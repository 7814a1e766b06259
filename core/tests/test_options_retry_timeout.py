"""The option ``retryTimeout``: every connector has it, and the engine follows it."""

from __future__ import annotations

import pytest

from penstock._plugins import find_connector
from penstock.connector import Capability, Connector
from penstock.options import Option, OptionSet
from penstock.retry import RetryPolicy
from penstock.spark._data_source import retry_policy

SIDES = [(name, side) for name in ("cassandra", "filesystem", "kafka", "pravega") for side in ("source", "sink")]
GIVEN = {
    "cassandra": {"keyspace": "k", "table": "t"},
    "filesystem source": {"path": "/data", "format": "json"},
    "filesystem sink": {"path": "/data", "format": "json"},
    "kafka source": {"kafka.bootstrap.servers": "h:1", "subscribe": "t"},
    "kafka sink": {"kafka.bootstrap.servers": "h:1", "topic": "t"},
    "pravega": {"controller": "tcp://127.0.0.1:9", "scope": "s", "stream": "t"},
}


def options_of(name, side, **more):
    declared = getattr(find_connector(name).load(), f"{side}_options")
    given = GIVEN.get(f"{name} {side}") or GIVEN[name]
    return declared.parse({**given, **more}, owner=f"{side} {name}")


@pytest.mark.parametrize(("name", "side"), SIDES, ids=[" ".join(side) for side in SIDES])
def test_it_arrives(name, side):
    assert retry_policy(options_of(name, side, retryTimeout="7s")) == RetryPolicy(7.0)


@pytest.mark.parametrize(("name", "side"), SIDES, ids=[" ".join(side) for side in SIDES])
def test_the_default_is_two_minutes(name, side):
    assert retry_policy(options_of(name, side)) == RetryPolicy(120.0)


def test_spark_s_name_for_kafka_means_the_same():
    options = options_of("kafka", "source", **{"kafkaConsumer.pollTimeoutMs": "512"})
    assert retry_policy(options) == RetryPolicy(0.512)


def test_a_connector_has_it_without_declaring_it():
    class Mine(Connector):
        source_options = OptionSet([Option("path", "Where", required=True)])
        capabilities = frozenset({Capability.BATCH_READ})

        def describe_guarantee(self):
            return ""

    assert Mine.source_options.find("retryTimeout").default == "2m" and Mine.sink_options is None
