"""Brokers of other versions, used by Spark: reading, both deliveries, and a query under SIGKILL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock_kafka.dev import kafka_server
from suite.kafka_smoke import smoke

VERSIONS = ("2.8.2", "3.0.2", "3.4.1", "3.9.1", "4.0.1", "4.4.0")


@pytest.mark.exhaustive("a broker and a dozen Spark drivers for each version; test_brokers.py has them without Spark")
@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_works_with_a_version(tmp_path: Path, version: str) -> None:
    with kafka_server(tmp_path / "kafka", quick_start=True, version=version) as server:
        found = smoke(server.address, tmp_path)
    print(json.dumps({version: found}))
    assert set(found.values()) == {"ok"}, found
