"""The parts of the write-ahead template by themselves: staging, looking, sending, recording, clearing."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError, DataLostError, FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import (
    CheckpointCommitter,
    CheckpointLocation,
    FileCheckpointCommitter,
    Found,
    Kept,
    Segment,
    Sender,
    SinkContext,
    SupportsStateRolling,
    WriteAheadSink,
    WriterContext,
    base_of,
)
from penstock.sink._write_ahead import Staged
from suite.scripted_sink import ScriptedStorage, ScriptedSystem, copied, scripted_system

SCHEMA = pa.schema([("id", pa.int64())])
ATTEMPT = "ab" * 16
STAGED, SENT = "/ck/penstock/staged", "/ck/penstock/sent"


def batch(count, start=0):
    return pa.record_batch([pa.array(range(start, start + count), pa.int64())], schema=SCHEMA)


def segment(number=0, base=5, writer=0, attempt=ATTEMPT):
    return Segment(7, writer, attempt, number, 3, 24, base)


class NotingSink(WriteAheadSink):
    """Notes what is done, in order. ``fails`` is what the sender raises; ``recorder`` is what remembers."""

    segment_bytes = 100
    parallel_senders = 1

    def __init__(self, notes):
        self.notes, self.fails, self.screened = notes, None, None
        self.may_close = threading.Event()

    def drop_invalid(self, batch, context):
        return batch if self.screened is None else self.screened(batch, context)

    def create_sender(self, context):
        return NotingSender(self)

    def create_checkpoint_committer(self, context):
        return NotingRecorder(super().create_checkpoint_committer(context), self.notes)


class NotingSender(Sender):
    def __init__(self, sink):
        self.sink = sink
        sink.notes.append("sender")

    def send(self, batches, segment):
        self.sink.notes.append(("send", segment.id, [i for one in batches for i in one.column(0).to_pylist()]))
        if self.sink.fails is not None:
            raise self.sink.fails

    def close(self):
        self.sink.notes.append("close sender")


class NotingRecorder(CheckpointCommitter):
    def __init__(self, inner, notes):
        self.inner, self.notes = inner, notes

    def is_recorded(self, segment):
        return self.inner.is_recorded(segment)

    def record(self, segment):
        self.notes.append(("record", segment.id))
        self.inner.record(segment)

    def forget(self, before_base, kept):
        self.inner.forget(before_base, kept)

    def close(self):
        self.notes.append("close recorder")


class InTurn(Executor):
    """Runs what is submitted at once."""

    def __init__(self, asked, threads, name):
        asked.append((threads, name))

    def submit(self, work, /, *args):
        future = Future()
        try:
            future.set_result(work(*args))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture
def executors(monkeypatch):
    asked = []
    monkeypatch.setattr(ScriptedSystem, "executor", lambda self, threads, name: InTurn(asked, threads, name))
    with scripted_system():
        yield asked


class Written:
    def __init__(self):
        self.storage, self.notes, self.metrics, self.owner = ScriptedStorage(), [], Metrics(), lambda: None
        self.location = CheckpointLocation(self.storage, "/ck")
        self.sink = NotingSink(self.notes)

    def writer(self, **changes):
        fields = {"batch_id": 7, "writer_index": 2, "attempt_id": ATTEMPT, "base": 5, **changes}
        context = WriterContext("q", SCHEMA, self.metrics, self.location, **fields)
        return self.sink.create_writer(context)

    @property
    def committer(self):
        return self.sink.create_committer(
            SinkContext("q", SCHEMA, self.metrics, self.location, check_owner=lambda: self.owner())
        )

    def stage(self, *segments):
        for one in segments:
            Staged(self.location).write(one.id, [batch(3, one.number * 3)])
        return list(segments)

    @property
    def staged(self):
        return [name.removesuffix(".arrow") for name in self.storage.list_names(STAGED)]

    @property
    def sent(self):
        return self.storage.list_names(SENT)


@pytest.fixture
def made():
    return Written()


# --- what is stored ---------------------------------------------------------------------------------------------------


def read_stream(stored):
    with pa.ipc.open_stream(stored) as stream:
        return stream.read_all()


def changed_byte(stored, error):
    """With the first change of one byte for which Arrow raises this very error."""
    for at, byte in enumerate(stored):
        for change in (0x01, 0xC0):
            damaged = stored[:at] + bytes([byte ^ change]) + stored[at + 1 :]
            try:
                read_stream(damaged)
            except Exception as raised:
                if type(raised) is error:
                    return damaged
    raise AssertionError(f"no change of a byte makes Arrow raise {error}")


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored[: len(stored) // 2],
        partial(changed_byte, error=OSError),
        partial(changed_byte, error=pa.ArrowInvalid),
        partial(changed_byte, error=pa.ArrowNotImplementedError),
        lambda stored: stored.replace(b"text of a row", b"text \xff a row"),
    ],
    ids=["cut", "io", "invalid", "unknown", "no text"],
)
def test_a_segment_that_is_damaged_is_named(made, damage):
    """Text that is none is found by a full validation alone."""
    staged, one = Staged(made.location), segment()
    staged.write(one.id, [pa.record_batch([[1], ["text of a row"]], names=["id", "text"])])
    path = f"{STAGED}/{one.id}.arrow"
    stored = made.storage.read(path)
    made.storage.put(path, damage(stored))
    assert made.storage.read(path) != stored
    with pytest.raises(BadDataError, match=rf"{one.id}\.arrow, staged and decided, is damaged"):
        list(staged.read(one))


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (segment(base=0).id, 0),
        (segment(base=1000).id, 1000),
        (segment(base=-1).id, -1),
        ("x-7-0-a-0", -1),
        ("5-7-0-a-0-1", -1),
        ("5-7-0-a", -1),
        (".5-7-0-a-0", -1),
        ("", -1),
    ],
)
def test_a_name_tells_its_base(name, base):
    assert base_of(name) == base


def test_a_segment_is_named_by_all_that_made_it():
    assert segment(3, 1000, 2).id == f"1000-7-2-{ATTEMPT}-3" and segment(3, 0, 2).id == f"0-7-2-{ATTEMPT}-3"
    assert segment(3, -1, 2).id == f"7-2-{ATTEMPT}-3"
    assert len({segment(), copied(segment())}) == 1 and Segment(1, 2, "a", 3, 4, 5).base == -1
    assert NotingSink([]).describe_committable(segment()) == f"segment {segment().id} (3 rows, 24 bytes)"


@pytest.mark.parametrize(
    ("contract", "what"),
    [
        (Sender, ["send"]),
        (CheckpointCommitter, ["forget", "is_recorded", "record"]),
        (WriteAheadSink, ["create_sender"]),
    ],
)
def test_what_an_author_must_write(contract, what):
    with pytest.raises(TypeError, match=", ".join(f"'?{name}'?" for name in what)):
        contract()


def test_nothing_is_carried(made):
    assert not isinstance(made.sink, SupportsStateRolling)


def test_segments_are_eight_mebibytes_and_sent_by_four():
    assert (WriteAheadSink.segment_bytes, WriteAheadSink.parallel_senders) == (8_388_608, 4)


@pytest.mark.parametrize("what", ["start", "create_writer", "create_committer", "create_checkpoint_committer"])
def test_there_is_a_checkpoint_to_keep_rows_in(made, what):
    context = WriterContext("q", SCHEMA)
    with pytest.raises(BadConfigurationError, match="not for a batch write"):
        getattr(made.sink, what)(context)
    assert made.sink.start(replace(context, checkpoint=made.location)) is made.sink


# --- staging ----------------------------------------------------------------------------------------------------------


def test_segments_are_cut_at_their_size(made):
    writer = made.writer()
    writer.write(batch(30))  # 12 rows of 8 bytes in 100
    writer.write(batch(0))
    writer.write(batch(6, 30))
    writer.write(batch(1, 36))
    prepared = writer.prepare_commit()
    writer.close()
    segments = prepared.committables
    assert [one.rows for one in segments] == [12, 12, 12, 1] and [one.size_bytes for one in segments] == [96, 96, 96, 8]
    assert segments[0] == Segment(7, 2, ATTEMPT, 0, 12, 96, 5) and [one.number for one in segments] == [0, 1, 2, 3]
    assert made.staged == [one.id for one in segments] and prepared.states == []
    stored = sum(len(data) for path, data in made.storage.files.items() if path.startswith(STAGED))
    assert made.metrics.take() == {"rows_written": 37, "bytes_written": 296, "bytes_staged": stored}
    rows = [i for one in segments for part in Staged(made.location).read(one) for i in part.column(0).to_pylist()]
    assert rows == list(range(37))
    assert all(call[2] for call in made.storage.asked if call[0] == "put"), "durable"


@pytest.mark.parametrize(("bytes_", "rows"), [(96, [12, 12]), (95, [11, 11, 2]), (8, [1] * 24), (1, [1] * 24)])
def test_a_segment_may_be_as_large_as_it_may(made, bytes_, rows):
    made.sink.segment_bytes = bytes_
    writer = made.writer()
    writer.write(batch(24))
    assert [one.rows for one in writer.prepare_commit().committables] == rows


@pytest.mark.parametrize(("second", "rows"), [(6, [12]), (7, [6, 7])])
def test_small_batches_come_together(made, second, rows):
    made.sink.segment_bytes = 96
    writer = made.writer()
    writer.write(batch(6))
    writer.write(batch(second, 6))
    assert [one.rows for one in writer.prepare_commit().committables] == rows


def test_rows_without_bytes_are_kept(made):
    schema = pa.schema([("nothing", pa.null())])
    writer = made.writer()
    writer.write(pa.record_batch([pa.nulls(150)], schema=schema))
    assert [one.rows for one in writer.prepare_commit().committables] == [150]


def test_rows_of_less_than_a_byte_come_together(made):
    made.sink.segment_bytes = 1
    writer = made.writer()
    writer.write(pa.record_batch({"flag": pa.array([True] * 8)}))
    assert [(one.rows, one.size_bytes) for one in writer.prepare_commit().committables] == [(8, 1)]


def test_no_rows_are_no_segments(made):
    writer = made.writer()
    writer.write(batch(0))
    assert writer.prepare_commit().committables == [] and made.staged == []
    assert made.metrics.take() == {"rows_written": 0, "bytes_written": 0}


def test_rows_may_be_put_aside_before_they_are_staged(made):
    seen = []
    made.sink.screened = lambda batch, context: seen.append((batch.num_rows, context.writer_index)) or batch.slice(1, 2)
    writer = made.writer()
    writer.write(batch(5))
    made.sink.screened = lambda batch, context: seen.append(batch.num_rows) or batch.slice(0, 0)
    writer.write(batch(4))
    writer.write(batch(0))
    (one,) = writer.prepare_commit().committables
    assert one.rows == 2 and seen == [(5, 2), 4]
    assert [part.column(0).to_pylist() for part in Staged(made.location).read(one)] == [[1, 2]]


def test_rows_are_kept_unless_the_sink_says_otherwise():
    one = batch(3)
    assert WriteAheadSink.drop_invalid(None, one, None) is one


def test_an_abort_removes_what_was_staged(made):
    writer = made.writer()
    writer.write(batch(30))
    assert made.staged
    writer.abort()
    assert made.staged == []


def fail(error):
    raise error


def test_an_abort_knows_what_it_was_staging(made):
    writer = made.writer()
    made.storage.before["put"] = [partial(fail, OSError("full"))]
    with pytest.raises(OSError, match="full"):
        writer.write(batch(30))
    made.stage(segment(0, writer=2))  # the file came to be there all the same
    writer.abort()
    assert made.staged == []


@pytest.mark.parametrize("error", [OSError("away"), RetriableError("away")])
def test_an_abort_does_not_raise_what_may_pass(made, error):
    writer = made.writer()
    writer.write(batch(30))
    made.storage.before["delete"] = [partial(fail, error)]
    writer.abort()


# --- looking ----------------------------------------------------------------------------------------------------------


def test_looking(made):
    sent, open_, both, lost = segment(0), segment(1), segment(2), segment(3)
    made.stage(open_, both)
    recorder = FileCheckpointCommitter(made.location)
    recorder.record(sent)
    recorder.record(both)
    found = made.committer.look([sent, open_, both, lost])
    assert found == [Found.COMMITTED, Found.OPEN, Found.COMMITTED, Found.LOST]
    assert made.notes == ["close recorder"]


def test_looking_at_nothing_lists_nothing(made):
    assert made.committer.look([]) == [] and made.storage.asked == []


def test_the_files_are_looked_at_before_the_records(made):
    """Another process records a segment before it removes the file."""
    (one,) = made.stage(segment())
    recorder = FileCheckpointCommitter(made.location)
    made.sink.create_checkpoint_committer = lambda context: (
        recorder.record(one),
        Staged(made.location).remove([one.id]),
        recorder,
    )[2]
    assert made.committer.look([one]) == [Found.COMMITTED]


# --- sending ----------------------------------------------------------------------------------------------------------


def test_segments_are_sent_in_order_and_recorded_each(made, executors):
    segments = made.stage(segment(0), segment(1), segment(0, writer=1, attempt="cd" * 16))
    made.owner = lambda: made.notes.append("owner?")
    assert made.committer.publish(segments) == [Found.COMMITTED] * 3
    first, second, other = (one.id for one in segments)
    assert made.notes == [
        "owner?", "sender", ("send", first, [0, 1, 2]), ("record", first),
        "owner?", ("send", second, [3, 4, 5]), ("record", second), "close recorder", "close sender",
        "owner?", "sender", ("send", other, [0, 1, 2]), ("record", other), "close recorder", "close sender",
    ]  # fmt: skip
    assert made.metrics.take() == {"segments_sent": 3} and executors == [(1, "penstock-sender")]
    assert made.staged and len(made.sent) == 3, "both stay until the decision log has gone on"


def test_nothing_is_sent_of_nothing(made, executors):
    assert made.committer.publish([]) == [] and made.notes == []


@pytest.mark.parametrize("error", [RetriableError("busy"), KeyboardInterrupt()])
def test_an_error_stops_the_others(made, executors, error):
    segments = made.stage(segment(0), segment(1), segment(0, attempt="cd" * 16))
    made.sink.fails = error
    with pytest.raises(type(error)):
        made.committer.publish(segments)
    assert [note for note in made.notes if note[0] == "send"] == [("send", segments[0].id, [0, 1, 2])]
    assert made.notes.count("close sender") == 1 and made.notes.count("close recorder") == 2 and made.sent == []


def test_who_is_not_the_owner_sends_nothing(made, executors):
    made.owner = partial(fail, FatalError("displaced"))
    with pytest.raises(FatalError, match="displaced"):
        made.committer.publish(made.stage(segment()))
    assert made.notes == ["close recorder"]


@pytest.mark.parametrize("displaced", [True, False])
def test_a_segment_that_is_gone_was_lost_unless_another_run_has_gone_on(made, executors, displaced):
    answers = [lambda: None, partial(fail, FatalError("displaced")) if displaced else lambda: None]
    made.owner = lambda: answers.pop(0)()
    with pytest.raises(FatalError if displaced else DataLostError) as caught:
        made.committer.publish([segment()])
    assert ("displaced" in str(caught.value)) == displaced and answers == []
    assert displaced or f"{STAGED}/{segment().id}.arrow, staged and decided, is gone" in str(caught.value)


# --- removing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["seal", "discard"])
def test_what_can_not_be_sent_any_more_is_removed(made, how):
    one, other = made.stage(segment(0), segment(1))
    if how == "seal":
        made.committer.seal([one])
    else:
        made.committer.discard([one], [])
    assert made.staged == [other.id]


def test_what_is_garbage_is_removed_with_its_records(made):
    bases = [-1, 0, 4, 5, 6]
    segments = made.stage(*(segment(base=base) for base in bases), segment(1, base=0))
    recorder = FileCheckpointCommitter(made.location)
    for one in segments:
        recorder.record(one)
    swept = []
    made.storage.sweep = swept.append
    assert made.committer.clear(Kept(5, 9, [segment(1, base=0)])) == 3
    kept = sorted(one.id for one in segments if one.base >= 5 or one.number == 1)
    assert sorted(made.staged) == sorted(made.sent) == kept
    assert swept == [SENT, STAGED] and made.notes == ["close recorder"]


def test_a_record_is_durable_and_found(made):
    recorder = FileCheckpointCommitter(made.location)
    assert not recorder.is_recorded(segment())
    recorder.record(segment())
    assert recorder.is_recorded(segment()) and not recorder.is_recorded(segment(1))
    assert made.storage.asked[-1] == ("put", f"{SENT}/{segment().id}", True)
    recorder.close()


@pytest.mark.parametrize("attempt", ["/../../../../victim", "x/../../../victim/.."])
def test_a_checkpoint_that_was_changed_names_no_file_elsewhere(attempt):
    storage = ScriptedStorage()
    checkpoint, changed = CheckpointLocation(storage, "/ck"), segment(attempt=attempt)
    recorder = FileCheckpointCommitter(checkpoint)
    for use in (recorder.is_recorded, recorder.record, Staged(checkpoint).read):
        with pytest.raises(FatalError, match="is not below"):
            use(changed)
    with pytest.raises(FatalError, match="is not below"):
        Staged(checkpoint).remove([changed.id])
