"""An option that several connectors have means the same in each, and what one of them lacks is lacking for a reason."""

from __future__ import annotations

import pytest

from penstock._plugins import find_connector
from penstock.options import COMMON_OPTIONS

#: Side and option → why a connector does without it.
LACKING = {
    "cassandra": {
        "source badRecords": "rows have the types of their table",
        "source badRecordColumn": "rows have the types of their table",
        "source maxRowsPerTrigger": "the rows of a split are not known before it is read: maxSplitsPerTrigger",
        "source maxBytesPerTrigger": "the bytes of a split are an estimate: maxSplitsPerTrigger",
        "source discoveryInterval": "a table is read once, nothing is looked for",
        "source failOnDataLoss": "a table keeps no history that could be lost",
        "sink keyColumns": "the table says it: its primary key",
    },
    "filesystem": {
        "source maxRowsPerTrigger": "the rows of a file are not known before it is read: maxFilesPerTrigger",
        "source failOnDataLoss": "ignoreMissingFiles says it of files, as in Spark",
        "source requestTimeout": "storage clients have time-outs of their own",
        "source user": "s3.key",
        "source password": "s3.secret",
        "source tls.caFile": "the environment's, as every S3 client takes it",
        "source tls.checkHostname": "the environment's, as every S3 client takes it",
        "sink requestTimeout": "storage clients have time-outs of their own",
        "sink user": "s3.key",
        "sink password": "s3.secret",
        "sink tls.caFile": "the environment's, as every S3 client takes it",
        "sink tls.checkHostname": "the environment's, as every S3 client takes it",
    },
    "kafka": {
        "source maxBytesPerTrigger": "offsets do not tell bytes",
        "source requestTimeout": "kafka.request.timeout.ms",
        "source user": "kafka.sasl.*",
        "source password": "kafka.sasl.*",
        "source tls.caFile": "kafka.ssl.*",
        "source tls.checkHostname": "kafka.ssl.*",
        "sink orderColumn": "a topic keeps the order in which rows come",
        "sink requestTimeout": "kafka.request.timeout.ms",
        "sink user": "kafka.sasl.*",
        "sink password": "kafka.sasl.*",
        "sink tls.caFile": "kafka.ssl.*",
        "sink tls.checkHostname": "kafka.ssl.*",
    },
    "pravega": dict.fromkeys(
        ("sink keyColumns", "sink operationColumn", "sink orderColumn", "sink unavailableColumn"),
        "a stream is not compacted by key",
    ),
}
#: Options of a source only, and of a sink only.
OF_SOURCES = {
    "badRecords",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "discoveryInterval",
    "failOnDataLoss",
}
OF_SINKS = {"delivery", "keyColumns", "operationColumn", "orderColumn", "unavailableColumn"}


@pytest.mark.parametrize("name", sorted(LACKING))
@pytest.mark.parametrize("side", ["source", "sink"])
def test_common_options(name, side):
    connector = find_connector(name).load()
    declared = {option.name: option for option in getattr(connector, f"{side}_options")}
    lacking = set()
    for common in COMMON_OPTIONS.values():
        if common.name in (OF_SINKS if side == "source" else OF_SOURCES):
            assert common.name not in declared, common.name
            continue
        option = declared.get(common.name)
        if option is None:
            lacking.add(f"{side} {common.name}")
            continue
        assert option.kind == common.kind and option.doc.startswith(common.doc), f"{common.name} means something else"
    assert lacking == {key for key in LACKING[name] if key.startswith(side)}


@pytest.mark.parametrize("name", sorted(LACKING))
def test_no_option_has_a_common_one_under_another_name(name):
    """Names that were used for the same before."""
    connector = find_connector(name).load()
    former = {"retryFor", "request.timeout", "tls.ca.location", "tls.validateHost", "credentials.username", "mode"}
    for options in (connector.source_options, connector.sink_options):
        assert not former & {option.name for option in options}


def test_every_delivery_is_one_of_four():
    found = set()
    for name in LACKING:
        found |= set(find_connector(name).load().sink_options.find("delivery").choices)
    assert found == {"none", "at-least-once", "exactly-once", "write-ahead"}
