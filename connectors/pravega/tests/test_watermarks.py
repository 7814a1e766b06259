"""Times that writers note at Pravega: noted by the sink, and gone by by the source."""

from __future__ import annotations

import datetime
import itertools
import json
import logging
import time
import uuid
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import CheckpointLocation, Found, SinkContext, WriterContext
from penstock.source import ReadLimits
from penstock.storage import LocalStorage
from penstock_pravega.client import Watermark, _controller, parse_watermark, watermark_stream
from penstock_pravega.options import SINK_OPTIONS, SinkOptions
from penstock_pravega.sink import create_sink
from penstock_pravega.source._reader import EventBlock
from penstock_pravega.source._split import SegmentRange
from penstock_pravega.source._watermarks import NEVER, StreamWatermarks, WatermarkTimer, _steps

HOUR_MS = 3_600_000
EPOCH = 1 << 32


def marks_of(pravega, stream):
    """Those of a stream, as far as the server has set them."""
    name = watermark_stream(f"{pravega.scope}/{stream}").partition("/")[2]
    return [parse_watermark(event.value) for event in pravega.read(name)]


def await_mark(pravega, stream, upper, patience_s=120):
    """Until the server has set a mark for a time that was noted: within a second, or ten by its own settings."""
    deadline = time.monotonic() + patience_s
    while not any(mark.upper >= upper for mark in marks_of(pravega, stream)):
        assert time.monotonic() < deadline, "the server sets no mark"
        time.sleep(0.05)


# --- told by marks ----------------------------------------------------------------------------------------------------


class Noted:
    """Marks that are known."""

    def __init__(self, *marks):
        self._marks = list(marks)

    def steps(self, stream, segment):
        return _steps(self._marks, segment)


def told(noted, segment, start, events):
    """Times and watermarks of events of ten bytes."""
    block = EventBlock(start, bytearray(), np.arange(events + 1, dtype=np.int64) * 10)
    found = WatermarkTimer(noted).times_of(block, SegmentRange("s/t", segment, start, start + 10 * events))
    return [[None if ms == NEVER else ms for ms in each.tolist()] for each in (found.times, found.watermarks)]


def test_an_event_has_the_time_of_the_mark_behind_it():
    noted = Noted(Watermark(100, 150, {0: 20, 1: 0}), Watermark(200, 260, {0: 40, 1: 10}))
    # Up to a mark nothing is later than its upper bound; behind it nothing is earlier than its lower one.
    assert told(noted, 0, 0, 6) == [[150, 150, 260, 260, 260, 260], [None, 100, 100, 200, 200, 200]]
    assert told(noted, 0, 30, 1) == [[260], [200]]
    assert told(noted, 1, 0, 2) == [[260, 260], [200, 200]]


def test_without_marks_there_are_no_times():
    assert told(Noted(), 0, 0, 2) == [[None, None], [None, None]]


def test_marks_go_on_over_a_scaling():
    noted = Noted(Watermark(100, 150, {0: 20}), Watermark(200, 260, {EPOCH | 1: 10, EPOCH | 2: 0}))
    # What came after the last mark of a segment that was replaced is before the first mark of its successors.
    assert told(noted, 0, 0, 3) == [[150, 150, 260], [None, 100, 100]]
    # Successors begin behind the last mark of what they replaced.
    assert told(noted, EPOCH | 1, 0, 2) == [[260, 260], [200, 200]]
    assert told(noted, EPOCH | 2, 0, 1) == [[260], [200]]
    # The next scaling: no mark knows its segments.
    assert told(noted, 2 * EPOCH | 3, 0, 1) == [[200], [200]]


# --- on a server ------------------------------------------------------------------------------------------------------


def write_hour(pravega, stream, hour, events):
    """Events of one key spread over the hour; then its end is noted."""
    step = HOUR_MS // events
    pravega.write(stream, [("k", json.dumps({"at": hour * HOUR_MS + n * step}).encode()) for n in range(events)])
    noted = (hour + 1) * HOUR_MS
    assert pravega.controller.note_time(pravega.scope, stream, "a-writer", pravega.tail(stream), noted)


def late(found, delay):
    """How many rows Spark would drop: those before the latest time of all batches before, less delay."""
    latest = itertools.accumulate((max(times) for times in found), max)
    return sum(at < before - delay for before, times in zip(latest, found[1:], strict=False) for at in times)


def test_streams_are_kept_together_by_what_writers_noted(pravega, pravega_source):
    sparse, dense = pravega.create_stream(segments=1), pravega.create_stream(segments=1)
    for hour in range(3):
        write_hour(pravega, sparse, hour, 10)
        write_hour(pravega, dense, hour, 800 if hour == 0 else 10)
        for stream in (sparse, dense):
            await_mark(pravega, stream, (hour + 1) * HOUR_MS)
    options = {"watermark_alignment_maxDrift": "10m", "watermark_timestamps": "noted", "watermark_idleTimeout": "2s"}

    def run(**options):
        harness = pravega_source(stream=f"{sparse},{dense}", startingStreamCut="head", **options)
        harness.source.validate_schema(harness.schema())
        found, deadline = [], time.monotonic() + 120
        with harness.enumerator() as enumerator:
            while sum(map(len, found)) < 850:
                assert time.monotonic() < deadline, f"{sum(map(len, found))} rows came"
                if splits := enumerator.take_batch(ReadLimits(max_records=100)):
                    found.append([json.loads(row["value"])["at"] for row in harness.read(splits)])
                else:
                    harness.coordinator.await_handlers(lambda: False, 20)
            return found, enumerator.describe_event_time()

    found, described = run(**options)
    delay = 600_000 + HOUR_MS  # the drift, and what lies between two notes: nobody knows what is when in between
    assert sum(map(len, found)) == 850 and late(found, delay) == 0
    assert set(described["frontiers"].values()) == {"1970-01-01T03:00:00.000Z"}
    assert late(run()[0], delay) > 100, "nothing would have been late anyhow"


def test_marks_are_read_once(pravega, pravega_source):
    stream = pravega.create_stream(segments=2)
    full = f"{pravega.scope}/{stream}"
    harness = pravega_source(stream=stream)
    with harness.enumerator() as enumerator:
        noted = StreamWatermarks(enumerator._client)
        assert noted.steps(full, 0).uppers.tolist() == []  # nobody has noted anything
        for hour in range(2):
            write_hour(pravega, stream, hour, 10)
            await_mark(pravega, stream, (hour + 1) * HOUR_MS)
            assert noted.steps(full, 0).uppers.tolist()[-1] == (hour + 1) * HOUR_MS
        assert len(noted._streams[full].watermarks) == len(marks_of(pravega, stream))


def test_marks_of_another_kind_are_told(pravega, pravega_source):
    stream = pravega.create_stream()
    pravega.write(f"_MARK{stream}", [("k", b"\0\1nothing that is known")])
    with pravega_source(stream=stream).enumerator() as enumerator:
        noted = StreamWatermarks(enumerator._client)
        with pytest.raises(FatalError, match=rf"noted about \S+{stream} can't be read: no mark that is known"):
            noted.steps(f"{pravega.scope}/{stream}", 0)


# --- noted by the sink ------------------------------------------------------------------------------------------------

SCHEMA = pa.schema([("value", pa.string()), ("at", pa.timestamp("us", "UTC"))])


def batch(*hours):
    at = [
        None if hour is None else datetime.datetime.fromtimestamp(hour * 3600, datetime.timezone.utc) for hour in hours
    ]
    return pa.record_batch([[f"hour {hour}" for hour in hours], at], schema=SCHEMA)


def sink_options(pravega, **options):
    given = {"controller": pravega.address, "scope": pravega.scope, "delivery": "exactly-once", **options}
    return SinkOptions.from_values(SINK_OPTIONS.parse(given, owner="sink penstock.pravega"))


@pytest.fixture
def committing(tmp_path):
    """``committing(sink, schema)``: a :class:`Committing`."""
    made = []

    def start(sink, schema):
        made.append(Committing(sink, schema, CheckpointLocation(LocalStorage(), str(tmp_path))))
        return made[-1]

    yield start
    for one in made:
        one.committer.close()


class Committing:
    """A query that writes the batches of some tasks, and commits them."""

    def __init__(self, sink, schema, checkpoint):
        self.context = SinkContext(uuid.uuid4().hex, schema, Metrics(), checkpoint)
        sink.validate_schema(schema)
        self.sink = sink.start(self.context)
        self.restart()

    def restart(self):
        self.committer = self.sink.create_committer(self.context)

    def prepare(self, *tasks):
        packed = []
        for batches in tasks:
            writer = self.sink.create_writer(WriterContext(**vars(self.context), attempt_id=uuid.uuid4().hex))
            for one in batches:
                writer.write(one)
            packed += [self.sink.committable_serializer.pack(one) for one in writer.prepare_commit().committables]
            writer.close()
        return [self.sink.committable_serializer.unpack(one) for one in packed]

    def __call__(self, *tasks):
        committables = self.prepare(*tasks)
        assert set(self.committer.look(committables)) == {Found.OPEN}
        assert set(self.committer.publish(committables)) == {Found.COMMITTED}


def test_each_batch_notes_its_watermark(pravega, committing, caplog):
    caplog.set_level(logging.INFO, "penstock.pravega")  # a time that the server does not take is no warning
    stream = pravega.create_stream(segments=2)
    options = sink_options(
        pravega, **{"stream": stream, "watermark.timestamps": "at", "watermark.outOfOrderness": "10m"}
    )
    write = committing(create_sink(options, SCHEMA), SCHEMA)
    write([batch(1, 3, None), batch(2)], [batch(1)])
    await_mark(pravega, stream, 3 * HOUR_MS - 600_000)
    mark = marks_of(pravega, stream)[-1]
    # What is written later is behind the mark, and none of the batch.
    assert mark.cut == pravega.tail(stream) and mark.lower == mark.upper == 3 * HOUR_MS - 600_000
    write([batch(2)])  # time does not go back
    write([batch(None)])
    write([batch(4)])
    await_mark(pravega, stream, 4 * HOUR_MS - 600_000)
    assert marks_of(pravega, stream)[-1].cut == pravega.tail(stream)
    assert (
        sorted(pravega.values(stream))
        == [b"hour 1", b"hour 1", b"hour 2", b"hour 2", b"hour 3", b"hour 4"] + [b"hour None"] * 2
    )


def test_a_time_is_noted_once_all_of_the_batch_is_committed(pravega, committing, monkeypatch):
    """Also if a driver has died half way: what it had committed counts as well."""
    stream = pravega.create_stream()
    query = committing(
        create_sink(sink_options(pravega, **{"stream": stream, "watermark.timestamps": "at"}), SCHEMA), SCHEMA
    )
    noted, note_time = [], type(pravega.controller).note_time

    def note(self, scope, name, writer, cut, time_ms):
        noted.append((time_ms, len(pravega.values(stream))))
        return note_time(self, scope, name, writer, cut, time_ms)

    monkeypatch.setattr(type(pravega.controller), "note_time", note)
    first, second, third = query.prepare([batch(9)], [batch(2)], [batch(3)])
    assert query.committer.look([first, second, third]) == [Found.OPEN] * 3
    assert query.committer.publish([first]) == [Found.COMMITTED]
    query.restart()
    assert query.committer.look([first, second, third]) == [Found.COMMITTED, Found.OPEN, Found.OPEN]
    assert query.committer.publish([second]) == [Found.COMMITTED]
    assert noted == []
    assert query.committer.publish([third]) == [Found.COMMITTED]
    assert noted == [(9 * HOUR_MS, 3)]


def test_the_time_of_a_batch_that_has_lost_a_part_is_not_noted(pravega, committing, monkeypatch):
    stream = pravega.create_stream()
    query = committing(
        create_sink(sink_options(pravega, **{"stream": stream, "watermark.timestamps": "at"}), SCHEMA), SCHEMA
    )
    monkeypatch.setattr(type(pravega.controller), "note_time", None)
    first, second = query.prepare([batch(9)], [batch(2)])
    query.committer.seal([first])
    assert query.committer.look([first, second]) == [Found.LOST, Found.OPEN]
    assert query.committer.publish([second]) == [Found.COMMITTED]


def test_what_cannot_be_noted_does_not_fail_the_batch(pravega, committing, monkeypatch, caplog):
    stream = pravega.create_stream()
    options = sink_options(pravega, **{"stream": stream, "watermark.timestamps": "at"})
    write = committing(create_sink(options, SCHEMA), SCHEMA)

    def fail(*arguments):
        raise RetriableError("the controller is away")

    with monkeypatch.context() as away:
        away.setattr(type(pravega.controller), "note_time", fail)
        write([batch(1)])
        write([batch(2)])
    assert caplog.text.count("could not be noted: the controller is away") == 1
    write([batch(3)])
    await_mark(pravega, stream, 3 * HOUR_MS)
    assert len(pravega.values(stream)) == 3


def test_a_time_is_noted_again_where_the_controller_could_not(pravega, monkeypatch):
    """Under load it answers that it failed, which does not mean that the time is refused."""
    stream, controller, failures = pravega.create_stream(), pravega.controller, [3, 3]
    call = type(controller)._call

    def fails(self, method, request, doing):
        if method == "noteTimestampFromWriter" and failures:
            return SimpleNamespace(result=failures.pop())
        return call(self, method, request, doing)

    monkeypatch.setattr(type(controller), "_call", fails)
    monkeypatch.setattr(_controller, "_PAUSE_S", 0.0)
    note = (pravega.scope, stream, "a-writer", pravega.tail(stream))
    assert controller.note_time(*note, 2000) and not failures
    assert not controller.note_time(*note, 1000), "an earlier time is refused, and not tried again"
    failures += [3] * 99
    with pytest.raises(RetriableError, match=r"noting a time on .*: the controller could not do it now"):
        controller.note_time(*note, 3000)


def test_options_that_do_not_go_together(pravega, pravega_source):
    with pytest.raises(BadConfigurationError, match=r"'watermark\.strategy': leave it out"):
        pravega_source(
            stream="s",
            watermark_alignment_maxDrift="1m",
            watermark_timestamps="noted",
            watermark_strategy="punctuated",
            watermark_punctuation="value",
        )
    with pytest.raises(BadConfigurationError, match="takes effect only with delivery=exactly-once"):
        sink_options(pravega, **{"stream": "s", "watermark.timestamps": "at", "delivery": "at-least-once"})
    with pytest.raises(BadConfigurationError, match=r"only with 'watermark\.timestamps'"):
        sink_options(pravega, **{"stream": "s", "watermark.outOfOrderness": "1m"})
    for column, message in (("when", "no column 'when'"), ("value", "'value' is string, not a timestamp")):
        options = sink_options(pravega, **{"stream": "s", "watermark.timestamps": column})
        with pytest.raises(BadConfigurationError, match=message):
            create_sink(options, SCHEMA).validate_schema(SCHEMA)
