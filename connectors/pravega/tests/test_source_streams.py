"""The source on a real server, without Spark: cuts, scaling, truncation, limits, formats."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError, DataLostError, RetriableError
from penstock.source import ReadLimits
from penstock_pravega.client import ControllerSettings, stream_name
from penstock_pravega.client._cuts import cut_text
from penstock_pravega.client._stream_client import StreamClient
from penstock_pravega.source._emitter import event_schema
from penstock_pravega.source._split import STATE_SERIALIZER


def events(first: int, count: int, keys: int = 7) -> list[tuple[str, bytes]]:
    return [(f"k{number % keys}", b"k%d:%06d" % (number % keys, number)) for number in range(first, first + count)]


def values(first: int, count: int, keys: int = 7) -> list[bytes]:
    return [value for _, value in events(first, count, keys)]


def take(harness, enumerator, most: int, limits: ReadLimits | None = None, patience_s: float = 90):
    """Micro-batches until so many rows have come: the rows of each."""
    batches, seen = [], 0
    deadline = time.monotonic() + patience_s
    while seen < most:
        assert time.monotonic() < deadline, f"{seen} of {most} rows came"
        rows = harness.read(splits) if (splits := enumerator.take_batch(limits or ReadLimits())) else []
        if rows:
            batches.append([row["value"] for row in rows])
            seen += len(rows)
        else:
            harness.coordinator.await_handlers(lambda: False, 20)
    return batches


def chained(batches: list[list[bytes]]) -> list[bytes]:
    return list(itertools.chain.from_iterable(batches))


def in_order(found: list[bytes]) -> bool:
    """Whether the events of each key are in the order in which they were written."""
    by_key = defaultdict(list)
    for value in found:
        by_key[value.split(b":")[0]].append(value)
    return all(one == sorted(one) for one in by_key.values())


def connections_to(port: int) -> int:
    """How many this process has; other files it has open, as those of other tests' clients, don't count."""
    links = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            links.add(os.readlink(descriptor))
    # The fields of a line: number, local and remote address, …, with the inode as the tenth.
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(fields[2].endswith(f":{port:04X}") and f"socket:[{fields[9]}]" in links for fields in lines)


def await_connections(port: int, count: int) -> None:
    deadline = time.monotonic() + 60
    while (found := connections_to(port)) != count:
        assert time.monotonic() < deadline, f"{found} connections, not {count}"
        time.sleep(0.02)


def text(pravega, stream, cut):
    return cut_text(stream_name(pravega.scope, stream), cut)


# --- batch ------------------------------------------------------------------------------------------------------------


def test_rows_say_where_they_are(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 50))
    rows = pravega_source(stream=stream, includePosition="true").rows()
    assert Counter(row["value"] for row in rows) == Counter(values(0, 50))
    there = {(event.segment, event.offset): event.value for event in pravega.read(stream)}
    assert {(row["segment"], row["offset"]): row["value"] for row in rows} == there
    assert {row["stream"] for row in rows} == {stream_name(pravega.scope, stream)}
    row = rows[0]
    assert row["position"] == f"{row['stream']}/{row['segment'] & 0xFFFFFFFF}.#epoch.0:{row['offset']}"


def test_a_range_between_two_cuts_is_the_same_each_time(pravega, pravega_source):
    stream = pravega.create_stream(segments=3)
    pravega.write(stream, events(0, 300))
    start = pravega.tail(stream)
    pravega.write(stream, events(300, 500))
    pravega.split_all(stream)
    pravega.write(stream, events(800, 500))
    pravega.merge_all(stream)
    pravega.write(stream, events(1300, 200))
    end = pravega.tail(stream)
    pravega.write(stream, events(1500, 100))
    found = pravega_source(
        stream=stream, startingStreamCut=text(pravega, stream, start), endingStreamCut=text(pravega, stream, end)
    )
    first, again = found.rows(), found.rows()
    assert first == again
    assert Counter(row["value"] for row in first) == Counter(values(300, 1200))
    assert in_order([row["value"] for row in first])  # one task reads the splits in their order


def test_cuts_in_the_wrong_order_are_refused(pravega, pravega_source):
    stream = pravega.create_stream(segments=1)
    early = pravega.tail(stream)
    pravega.write(stream, events(0, 10))
    pravega.split_all(stream)
    late = pravega.tail(stream)
    source = pravega_source(
        stream=stream, startingStreamCut=text(pravega, stream, late), endingStreamCut=text(pravega, stream, early)
    )
    with pytest.raises(BadConfigurationError, match="refused"):
        source.rows()


def test_several_streams(pravega, pravega_source):
    one, two = pravega.create_stream(), pravega.create_stream(segments=2)
    pravega.write(one, events(0, 30))
    pravega.write(two, events(30, 30))
    rows = pravega_source(stream=f"{one}, {pravega.scope}/{two}").rows()
    assert Counter(row["stream"].split("/")[1] for row in rows) == {one: 30, two: 30}
    assert Counter(row["value"] for row in rows) == Counter(values(0, 60))


def test_a_stream_that_is_not_there(pravega_source):
    with pytest.raises(BadConfigurationError, match="no-such"):
        pravega_source(stream="no-such").rows()


def test_a_sealed_stream_is_read_to_its_end(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 40))
    pravega.controller.seal_stream(pravega.scope, stream)
    assert Counter(pravega_source(stream=stream).values()) == Counter(values(0, 40))


def test_events_of_many_sizes_over_many_requests(pravega, pravega_source):
    stream = pravega.create_stream()
    written = [bytes([number % 251]) * (number * 7919 % 90_000) for number in range(120)] + [b"x" * (3 << 20)]
    pravega.write(stream, [("k", value) for value in written[:60]])
    pravega.write(stream, [("k", value) for value in written[60:]])
    assert pravega_source(stream=stream).values() == written


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_new_query_starts_at_the_tail(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 20))
    source = pravega_source(stream=stream)
    with source.enumerator() as enumerator:
        assert enumerator.take_batch(ReadLimits()) == []
        assert enumerator.wants_checkpoint()  # what comes while the query is down lies behind this place
        state = enumerator.snapshot_state()
    pravega.write(stream, events(20, 20))
    again = pravega_source(stream=stream)
    with again.enumerator(STATE_SERIALIZER.unpack(STATE_SERIALIZER.pack(state))) as enumerator:
        assert Counter(take(again, enumerator, 20)[0]) == Counter(values(20, 20))


def test_successors_are_read_after_what_they_replace(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    source = pravega_source(stream=stream, startingStreamCut="head", discoveryInterval="50ms")
    found: list[bytes] = []
    with source.enumerator() as enumerator:
        for number, change in enumerate(
            [pravega.split_all, pravega.merge_all, pravega.split_all, pravega.split_all, pravega.merge_all]
        ):
            pravega.write(stream, events(number * 100, 100))
            if number % 2:
                found += chained(take(source, enumerator, 1))
            change(stream)
        pravega.write(stream, events(500, 100))
        for batch in take(source, enumerator, 600 - len(found)):
            found += batch
        # A batch that holds a segment's end holds nothing of its successors: over batches, order within a key holds.
        assert Counter(found) == Counter(values(0, 600))
        assert in_order(found)
        reached = enumerator.snapshot_state().cuts[stream_name(pravega.scope, stream)]
        assert reached == pravega.tail(stream)


@pytest.mark.parametrize(("limit", "most"), [("maxRowsPerTrigger", 25), ("maxBytesPerTrigger", 400)])
def test_limits(pravega, pravega_source, limit, most):
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 200))
    source = pravega_source(stream=stream, startingStreamCut="head", **{limit: most})
    with source.enumerator() as enumerator:
        batches = take(source, enumerator, 200, source.source.read_limits())
    sizes = [sum(len(value) + 8 for value in one) if "Bytes" in limit else len(one) for one in batches]
    assert max(sizes) <= most and len(sizes) <= 2 * sum(sizes) / most + 2
    assert Counter(chained(batches)) == Counter(values(0, 200))


def test_a_first_look_that_failed_and_nobody_asked_about_is_forgotten_by_the_next_one(pravega, pravega_source):
    stream = pravega.create_stream()
    pravega.write(stream, events(0, 10))
    source = pravega_source(stream=stream, startingStreamCut="head")
    with source.enumerator() as enumerator:
        enumerator._on_resolved(None, RetriableError("away"))
        enumerator.prepare_for_available_now()
        assert enumerator.take_batch(ReadLimits())


def test_looking_ahead_leaves_no_connections(pravega, pravega_source):
    """Each look is a thread's own: what it opens ends with it."""
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 600))
    _, port = pravega.controller.locate(pravega.scope, stream, 0)
    before = connections_to(port)
    source = pravega_source(stream=stream, startingStreamCut="head", maxRowsPerTrigger=10)
    with source.enumerator() as enumerator:
        limits, taken = source.source.read_limits(), 0
        while splits := enumerator.take_batch(limits):
            taken += len(splits)
            source.coordinator.await_handlers(lambda: False, 20)
        # The last looks may still be under way, and their threads end when the machine gets to it.
        await_connections(port, before + 1)  # the enumerator's own
    assert taken > 60
    await_connections(port, before)


def test_a_thread_that_asks_once_leaves_no_connections(pravega):
    stream = pravega.create_stream(segments=2)
    _, port = pravega.controller.locate(pravega.scope, stream, 0)
    before = connections_to(port)
    client = StreamClient(ControllerSettings(pravega.address))
    for _ in range(3):
        thread = threading.Thread(
            target=client.with_own_connections, args=[lambda: client.tail(f"{pravega.scope}/{stream}")]
        )
        thread.start()
        thread.join()
    await_connections(port, before)


def test_a_limit_lets_at_least_one_event_through(pravega, pravega_source):
    stream = pravega.create_stream()
    pravega.write(stream, [("k", b"x" * 5000), ("k", b"y" * 5000)])
    source = pravega_source(stream=stream, startingStreamCut="head", maxBytesPerTrigger="10")
    with source.enumerator() as enumerator:
        assert [len(one) for one in take(source, enumerator, 2, source.source.read_limits())] == [1, 1]


def test_an_ending_cut_ends_the_stream(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 50))
    pravega.split_all(stream)
    pravega.write(stream, events(50, 50))
    end = text(pravega, stream, pravega.tail(stream))
    pravega.write(stream, events(100, 50))
    source = pravega_source(stream=stream, startingStreamCut="head", endingStreamCut=end, discoveryInterval="50ms")
    with source.enumerator() as enumerator:
        assert Counter(chained(take(source, enumerator, 100))) == Counter(values(0, 100))
        assert enumerator.take_batch(ReadLimits()) == []
        assert enumerator.has_ended()


def test_a_stream_that_is_added_at_a_restart_is_read_to_the_end_that_was_given(pravega, pravega_source):
    first, added = pravega.create_stream(), pravega.create_stream()
    for stream in (first, added):
        pravega.write(stream, events(0, 5))
    ends = {"startingStreamCut": "head", "endingStreamCut": "tail", "discoveryInterval": "50ms"}
    source = pravega_source(stream=first, **ends)
    with source.enumerator() as enumerator:
        take(source, enumerator, 5)
        state = enumerator.snapshot_state()
    pravega.write(first, events(5, 5))  # after the end, which stays
    source = pravega_source(stream=f"{first},{added}", **ends)
    with source.enumerator(state) as enumerator:
        assert Counter(chained(take(source, enumerator, 5))) == Counter(values(0, 5))
        assert enumerator.take_batch(ReadLimits()) == [] and enumerator.has_ended()


# --- what is gone -----------------------------------------------------------------------------------------------------


def test_truncated_before_it_was_planned(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 50))
    first = pravega_source(stream=stream, startingStreamCut="head")
    with first.enumerator() as enumerator:
        enumerator.take_batch(ReadLimits(max_records=4))
        state = enumerator.snapshot_state()
    pravega.controller.truncate_stream(pravega.scope, stream, pravega.tail(stream))
    pravega.write(stream, events(50, 50))
    with first.enumerator(state) as enumerator, pytest.raises(DataLostError, match="failOnDataLoss"):
        enumerator.take_batch(ReadLimits())
    jumping = pravega_source(stream=stream, failOnDataLoss="false")
    with jumping.enumerator(state) as enumerator:
        assert Counter(chained(take(jumping, enumerator, 50))) == Counter(values(50, 50))
    assert jumping.metrics.snapshot()["data_losses"] >= 1


def test_segments_truncated_away(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    pravega.write(stream, events(0, 50))
    first = pravega_source(stream=stream, startingStreamCut="head")
    with first.enumerator() as enumerator:
        enumerator.take_batch(ReadLimits(max_records=4))
        state = enumerator.snapshot_state()
    pravega.split_all(stream)
    pravega.controller.truncate_stream(pravega.scope, stream, pravega.tail(stream))
    pravega.write(stream, events(50, 50))
    with first.enumerator(state) as enumerator, pytest.raises(DataLostError):
        enumerator.take_batch(ReadLimits())
    jumping = pravega_source(stream=stream, failOnDataLoss="false")
    with jumping.enumerator(state) as enumerator:
        assert Counter(chained(take(jumping, enumerator, 50))) == Counter(values(50, 50))


def test_truncated_after_it_was_planned(pravega, pravega_source):
    stream = pravega.create_stream()
    pravega.write(stream, events(0, 50))
    half = pravega.tail(stream)
    pravega.write(stream, events(50, 50))
    source = pravega_source(stream=stream)
    splits = source.list_splits()
    pravega.controller.truncate_stream(pravega.scope, stream, half)
    with pytest.raises(DataLostError, match="truncated"):
        source.read(splits)
    jumping = pravega_source(stream=stream, failOnDataLoss="false")
    assert [row["value"] for row in jumping.read(splits)] == values(50, 50)


# --- formats ----------------------------------------------------------------------------------------------------------


def test_json(pravega, pravega_source):
    stream = pravega.create_stream()
    pravega.write(stream, [("k", b'{"id": 1, "note": "a"}'), ("k", b'{"id": 2}'), ("k", b"not json")])
    schema = event_schema(pa.struct([("id", pa.int64()), ("note", pa.string())]))
    with pytest.raises(BadDataError, match="offset"):
        pravega_source(stream=stream, value_format="json").rows(schema)
    source = pravega_source(stream=stream, value_format="json", badRecords="null")
    rows = [row["value"] for row in source.rows(schema)]
    assert rows == [{"id": 1, "note": "a"}, {"id": 2, "note": None}, None]
    assert source.metrics.snapshot()["bad_rows"] == 1
    named = pravega_source(stream=stream, value_format="json", value_schema="id long, note string", badRecords="null")
    assert named.values() == rows


def test_an_event_that_can_not_be_decoded_becomes_a_letter(pravega, pravega_source):
    stream = pravega.create_stream()
    pravega.write(stream, [("k", b'{"id": 1}'), ("k", b"not json")])
    options = {"value_format": "json", "value_schema": "id long", "badRecords": "deadLetter"}
    source = pravega_source(stream=stream, badRecordColumn="bad", **options)
    first, second = source.rows()
    assert (first["value"], first["bad"], second["value"]) == ({"id": 1}, None, None)
    letter = second["bad"]
    assert (letter["value"], letter["stage"], letter["connector"]) == (b"not json", "source", "pravega")
    assert (letter["source"], letter["partition"], letter["offset"]) == (
        second["stream"],
        second["segment"],
        second["offset"],
    )
    assert letter["error"] and source.metrics.snapshot()["bad_rows"] == 1
    with pytest.raises(BadConfigurationError, match="'badRecordColumn': 'offset' is a column already"):
        pravega_source(stream=stream, badRecordColumn="offset", **options)


def test_strings(pravega, pravega_source):
    stream = pravega.create_stream()
    pravega.write(stream, [("k", "grüße".encode())])
    assert pravega_source(stream=stream, value_format="string").values() == ["grüße"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": ""}, "needs the option 'stream'"),
        ({"stream": ","}, "name streams"),
        ({"stream": "a/b/c"}, "letters"),
        ({"stream": "s", "startingStreamCut": "nonsense"}, "StreamCut.asText"),
        ({"stream": "s,t", "startingStreamCut": cut_text("x/s", {0: 0})}, "JSON"),
        ({"stream": "s", "startingStreamCut": cut_text("x/s", {0: 0})}, "not of"),
        ({"stream": "s", "startingStreamCut": '{"t": "head"}'}, "must be named"),
        ({"stream": "s", "controller": "nothing://"}, "tcp://host:port"),
        ({"stream": "s", "user": "u"}, "'user' needs the option 'password'"),
    ],
)
def test_options_that_do_not_go_together(pravega_source, options, message):
    with pytest.raises(BadConfigurationError, match=message):
        pravega_source(**options)


def test_the_environment_comes_after_options(pravega, pravega_source, monkeypatch):
    from penstock_pravega.options import SOURCE_OPTIONS, SourceOptions

    def parsed(**given):
        return SourceOptions.from_values(SOURCE_OPTIONS.parse({"stream": "s", **given}, owner="test"))

    monkeypatch.delenv("PRAVEGA_CONTROLLER_URI", raising=False)
    assert parsed(scope="a").connection.uri == "tcp://localhost:9090"
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", "tcp://env:1")
    monkeypatch.setenv("PRAVEGA_SCOPE", "env")
    assert parsed().connection.uri == "tcp://env:1" and parsed().streams == ("env/s",)
    assert parsed(controller="tcp://own:2", scope="own").connection.uri == "tcp://own:2"
    assert parsed(scope="own").streams == ("own/s",)
    monkeypatch.setenv("pravega_client_auth_method", "Basic")
    monkeypatch.setenv("pravega_client_auth_token", "c2VjcmV0")
    assert parsed().connection.credentials.header == "Basic c2VjcmV0"
    assert "c2VjcmV0" not in repr(parsed())
