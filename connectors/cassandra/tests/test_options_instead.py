"""Options of spark-cassandra-connector are refused, with what this connector calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import BadConfigurationError
from penstock_cassandra import CassandraConnector
from penstock_cassandra.options._instead import NOT_READ, NOT_WRITTEN

SIDES = {
    "source": (CassandraConnector.source_options, NOT_READ),
    "sink": (CassandraConnector.sink_options, NOT_WRITTEN),
}


@pytest.mark.parametrize(("side", "name"), [(side, name) for side, (_, instead) in SIDES.items() for name in instead])
def test_they_are_refused_with_advice(side, name):
    declared, instead = SIDES[side]
    with pytest.raises(BadConfigurationError) as raised:
        declared.parse({"keyspace": "k", "table": "t", name.lower(): "1"}, owner=side)
    assert str(raised.value) == f"{side} has no option '{name.lower()}': {instead[name]}"
    named = [option.name for option in declared if option.name in instead[name].replace(",", "").split()]
    assert named or instead[name].startswith("leave it out"), "an option that is there"


def test_they_are_on_the_page():
    page = (Path(__file__).parents[3] / "docs" / "production" / "upgrading.md").read_text()
    section = page.partition("## From spark-cassandra-connector")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert {name.strip("`"): advice for name, advice in rows} == {**NOT_READ, **NOT_WRITTEN}
    assert all(NOT_READ[name] == NOT_WRITTEN[name] for name in NOT_READ.keys() & NOT_WRITTEN.keys())
