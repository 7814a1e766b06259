"""Streams of bytes without events in them, as Pravega's byte streams are: read in pieces, written as they are."""

from __future__ import annotations

import os
from itertools import pairwise

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError
from penstock.source import ReadLimits
from penstock.testing import SinkQuery
from penstock_pravega import PravegaConnector
from penstock_pravega.client import RangeReader, SegmentAppender, segment_name, stream_name

VALUES = pa.schema([("value", pa.binary())])


@pytest.fixture
def raw_stream(pravega):
    """A stream with 2.5 MiB that are no events; its name and the bytes."""
    name, data = pravega.create_stream(), os.urandom(5 << 19)
    full = stream_name(pravega.scope, name)
    appender = SegmentAppender(pravega.stores, full, 0, segment_name(full, 0))
    for start in range(0, len(data), 700_000):
        appender.append(data[start : start + 700_000], 1)
    appender.flush()
    appender.close()
    return name, data


def bytes_of(pravega, name):
    full, tail = stream_name(pravega.scope, name), pravega.tail(name)
    reader, found = RangeReader(pravega.stores, full, 0, 0, tail[0]), bytearray()
    while (piece := reader.read()) is not None:
        found += piece
    return bytes(found)


@pytest.mark.parametrize("size", ["1mb", "100kb", "7b"])
def test_pieces_are_the_same_each_time(pravega_source, raw_stream, size):
    name, data = raw_stream
    harness = pravega_source(stream=name, framing="none", pieceSize=size, includePosition="true")
    wanted = {"1mb": 1 << 20, "100kb": 100 << 10, "7b": 7}[size]
    splits = harness.list_splits()
    rows = harness.read(splits)
    assert b"".join(row["value"] for row in rows) == data
    assert {len(row["value"]) for row in rows[:-1]} == {wanted}
    assert all(later["offset"] - row["offset"] == wanted for row, later in pairwise(rows))
    assert rows == harness.read(splits)


def test_a_limit_cuts_anywhere(pravega_source, raw_stream):
    name, data = raw_stream
    harness = pravega_source(stream=name, framing="none", startingStreamCut="head")
    found = []
    with harness.enumerator() as enumerator:
        while sum(map(len, found)) < len(data):
            rows = harness.read(enumerator.take_batch(ReadLimits(max_bytes=999_999)))
            found.append(b"".join(row["value"] for row in rows))
    assert b"".join(found) == data
    assert [len(one) for one in found] == [999_999, 999_999, len(data) - 2 * 999_999]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_values_are_appended_as_they_are(pravega, tmp_path, delivery):
    name, values = pravega.create_stream(), [b"abc", b"", os.urandom(3 << 20), b"z"]
    connector = PravegaConnector()
    given = {"controller": pravega.address, "scope": pravega.scope, "stream": name}
    options = connector.sink_options.parse({**given, "framing": "none", "delivery": delivery}, owner="sink")
    query = SinkQuery(connector.create_sink(options, VALUES), VALUES, tmp_path / "ck")
    query.run(0, [[pa.record_batch([values], schema=VALUES)]])
    query.run(1, [[pa.record_batch([[b"", b""]], schema=VALUES), pa.record_batch([[b"end"]], schema=VALUES)]])
    assert bytes_of(pravega, name) == b"".join([*values, b"end"])


def test_events_are_told_apart(pravega, pravega_source, raw_stream, tmp_path):
    with pytest.raises(BadDataError, match="framing=none"):
        pravega_source(stream=raw_stream[0]).rows()
    two = pravega.create_stream(segments=2)
    given = {"controller": pravega.address, "scope": pravega.scope, "stream": two, "framing": "none"}
    connector = PravegaConnector()
    sink = connector.create_sink(connector.sink_options.parse(given, owner="sink"), VALUES)
    with pytest.raises(BadConfigurationError, match="not exactly one segment"):
        SinkQuery(sink, VALUES, tmp_path / "ck").run(0, [[pa.record_batch([[b"a"]], schema=VALUES)]])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pieceSize": "1mb"}, "only with framing=none, and framing is events"),
        ({"framing": "none", "maxRowsPerTrigger": "5"}, "'maxRowsPerTrigger' can't be used with framing=none"),
        ({"framing": "none", "value_format": "json"}, r"'value\.format' is about events"),
        ({"framing": "none", "pieceSize": "2gb"}, "above the largest value 1073741824"),
    ],
)
def test_options_that_do_not_go_together(pravega_source, options, reason):
    with pytest.raises(BadConfigurationError, match=reason):
        pravega_source(stream="s", **options)
