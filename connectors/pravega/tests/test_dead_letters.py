"""Dead letters at Pravega: events that can't be written, and letters as events."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest

from penstock.dead_letters import LETTER_TYPE, letters
from penstock.testing import SinkQuery
from penstock_pravega import PravegaConnector
from penstock_pravega.client import LARGEST_EVENT
from suite.letters import letters_in, sink_with_letters, to_folder

SCHEMA = pa.schema([("routing_key", pa.string()), ("value", pa.binary()), ("_bad_record", LETTER_TYPE)])


def rows():
    """A good event, a bad record that was read, and one without a value."""
    errors = pa.array([None, "not JSON", None], pa.string())
    marked = letters(errors, stage="source", connector="kafka", source="in", partition=3, offset=7, value=b"\xff")
    return pa.record_batch([["k", None, "k"], [b"good", None, None], marked], schema=SCHEMA)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_letters_are_events_of_another_stream(pravega, pravega_source, tmp_path, delivery):
    stream, bad = pravega.create_stream(), pravega.create_stream()
    options = {"controller": pravega.address, "scope": pravega.scope, "stream": stream, "delivery": delivery}
    options |= {"deadLetters.format": "pravega", "deadLetters.stream": bad}
    SinkQuery(sink_with_letters(PravegaConnector(), SCHEMA, options), SCHEMA, tmp_path / "ck").run_all([[[rows()]]])
    assert pravega_source(stream=stream).values() == [b"good"]
    found = {letter["stage"]: letter for letter in map(json.loads, pravega_source(stream=bad).values())}
    read, refused = found["source"], found["sink"]
    assert (read["source"], read["partition"], read["offset"], read["error"]) == ("in", 3, 7, "not JSON")
    assert base64.b64decode(read["value"]) == b"\xff"
    assert refused["source"] == f"{pravega.scope}/{stream}" and base64.b64decode(refused["key"]) == b"k"
    assert refused["error"] == "it has no value (it is null), and an event has one"


def test_an_event_that_is_too_large_goes_to_a_folder(pravega, pravega_source, tmp_path):
    stream = pravega.create_stream()
    schema = pa.schema([("value", pa.binary())])
    large = b"x" * (LARGEST_EVENT + 1)
    options = {"controller": pravega.address, "scope": pravega.scope, "stream": stream, "delivery": "exactly-once"}
    sink = sink_with_letters(PravegaConnector(), schema, {**options, **to_folder(tmp_path / "letters")})
    SinkQuery(sink, schema, tmp_path / "ck").run_all([[[pa.record_batch([[b"a", large, b"b"]], schema=schema)]]])
    assert sorted(pravega_source(stream=stream).values()) == [b"a", b"b"]
    (letter,) = letters_in(tmp_path / "letters")
    assert letter["value"] == large and "an event has at most" in letter["error"]
