"""The code on the documentation's pages that needs a broker."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from suite.pages import as_a_reader, blocks, in_the_session

pytestmark = pytest.mark.spark
#: The topics that a block names itself.
TOPICS = re.compile(r'"(?:topic|subscribe|deadLetters\.topic)",\s*"([\w-]+)"')
BLOCKS = {block.name: block for block in blocks("kafka")}


def on_topics_of_its_own(block, kafka):
    """The broker is everybody's: ``in``, with two records, and ``out`` get other names, as do a page's own topics."""
    records = [
        {"key": "a", "value": '{"id": 1, "at": "2026-01-01T10:00:00Z", "note": "one"}'},
        {"key": "b", "value": '{"id": 2, "at": "2026-01-01T10:00:05Z"}'},
    ]
    source, target = kafka.create_topic(partitions=2), kafka.create_topic()
    kafka.produce(source, records)
    names = {name: f"{name}-{source}" for name in TOPICS.findall(block.code)} | {"in": source, "out": target}
    code = block.code
    for name, own in names.items():
        code = code.replace(f'"{name}"', f'"{own}"')
    return replace(block, code=code)


@pytest.mark.parametrize("name", BLOCKS)
def test_code_runs_and_prints_what_it_says(name, kafka, tmp_path, spark, monkeypatch):
    in_the_session(on_topics_of_its_own(BLOCKS[name], kafka), tmp_path, monkeypatch.setenv, kafka.address)


@pytest.mark.exhaustive("a driver for each block; test_code_runs_and_prints_what_it_says runs them in one session")
@pytest.mark.parametrize("name", BLOCKS)
def test_code_runs_for_a_reader(name, kafka, tmp_path):
    as_a_reader(on_topics_of_its_own(BLOCKS[name], kafka), tmp_path, {"PENSTOCK_KAFKA_ADDRESS": kafka.address})
