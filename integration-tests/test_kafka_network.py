"""Kafka to Kafka on Spark over a bad network, with a reader of committed records past it."""

from __future__ import annotations

import pytest

from penstock_kafka.dev import KafkaToolbox
from suite.kafka_network import broker_behind_network

pytestmark = pytest.mark.spark

#: What a task and the driver ask of coordinators and leaders for a commit.
ASKED = (
    *("InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "DescribeTransactions"),
    *("EndTxn", "ListTransactions", "FindCoordinator"),
)


@pytest.mark.exhaustive("on Spark what connectors/kafka/tests/test_network.py shows without it")
def test_the_answer_of_every_request_of_a_commit_is_lost(driver, watched_copy, tmp_path):
    with broker_behind_network(tmp_path / "kafka") as (server, network):
        copy = watched_copy(KafkaToolbox(server.address))
        copy.records.add(1000)
        losses = [network.lose(f"{kind}$", nth=number % 3 + 1) for number, kind in enumerate(ASKED)]
        driver("copy_kafka", **{**copy.job, "brokers": network.address, "per_trigger": 200}).wait_for_success()
        assert all(loss.lost for loss in losses), losses
        copy.check()
