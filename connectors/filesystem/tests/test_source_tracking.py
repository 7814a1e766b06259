"""What was read: exact however many files there are, in the state or beside the checkpoint, whatever fails between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, FatalError
from penstock.storage import LocalStorage
from penstock_filesystem.source._split import STATE_SERIALIZER, FileSystemEnumeratorState
from penstock_filesystem.source.tracking import FileTracker
from penstock_filesystem.source.tracking._run_store import RunStore
from penstock_filesystem.source.tracking._tracked_files import FingerprintRun, TrackedFiles, merge_runs


class Stream:
    """A tracker that lives through restarts: what is stored with each batch is all that a restart has."""

    def __init__(self, harness, checkpoint=None):
        self.harness, self.checkpoint = harness, checkpoint
        self.stored = None
        self.restart()

    def restart(self, stored=None):
        stored = stored or self.stored
        state = STATE_SERIALIZER.unpack(stored) if stored else None
        self.context = self.harness.context()
        self.tracker = FileTracker.open(self.context, self.checkpoint, {}, state)

    def batch(self, *paths):
        """Reads files; the background gets its turn behind them, as it does between batches."""
        for path in paths:
            assert not self.tracker.contains(path)
            self.tracker.add(path)
        self.stored = STATE_SERIALIZER.pack(self.tracker.snapshot(FileSystemEnumeratorState()))
        self.tracker.note_commit()
        self.background()
        return self.stored

    def background(self):
        self.tracker.maintain()
        while self.context.calls:
            self.context.run_calls()
            self.context.calls.clear()
            self.tracker.maintain()

    def runs(self):
        return sorted(path.name for path in self.checkpoint.glob("penstock/sources/*/*"))


@pytest.fixture
def kept_beside(tmp_path, source_harness):
    class Beside(Stream):
        def __init__(self):
            self.checkpoint = tmp_path / "checkpoint"
            super().__init__(source_harness, str(self.checkpoint))

        def restart(self, stored=None):
            super().restart(stored)

        def runs(self):
            return sorted(path.name for path in (tmp_path / "checkpoint").glob("penstock/sources/*/*"))

    return Beside


def names(first, count):
    return [f"/data/landing/region=europe/part-{number:08}.csv.gz" for number in range(first, first + count)]


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 5000), max_size=1500), max_size=12), st.booleans())
def test_it_is_a_set(batches, stored):
    tracked, expected = TrackedFiles(), set()
    for batch in batches:
        for value in batch:
            tracked.add(str(value))
            expected.add(str(value))
        if work := tracked.runs_to_rewrite(stored=stored):
            output = merge_runs(work)
            tracked.replace(work, FingerprintRun(output.fingerprints, "named") if stored else output)
        tracked = TrackedFiles(tracked.runs, tracked.newest_fingerprints())
    assert len(tracked) == len(expected)
    assert all(tracked.contains(value) for value in expected) and not tracked.contains("another")


@pytest.mark.parametrize(
    "files",
    [40_000, pytest.param(1_000_000, marks=pytest.mark.exhaustive("a million files; what is said of 40,000 stays"))],
)
def test_every_file_is_remembered_and_offsets_stay_small(kept_beside, calls_made, files):
    s = kept_beside()
    for first in range(0, files, 4000):
        stored = s.batch(*names(first, 4000))
        assert len(str(stored.to_json())) < 100_000, "4,000 new ones, and what names the rest"
    assert calls_made(s.restart) < files / 20, "a restart takes less than a call for every twentieth file"
    assert len(s.tracker) == files
    assert all(s.tracker.contains(name) for name in names(0, files)[:: files // 1000])
    assert not any(s.tracker.contains(name) for name in names(files, 1000))


def test_without_a_place_offsets_hold_it_and_a_warning_says_what_to_do(source_harness, caplog, monkeypatch):
    monkeypatch.setattr("penstock_filesystem.source.tracking._tracker._MANY_FILES", 10_000)
    s = Stream(source_harness)
    for first in range(0, 12_000, 1200):
        s.batch(*names(first, 1200))
    s.restart()
    assert len(s.tracker) == 12_000 and all(s.tracker.contains(name) for name in names(0, 12_000))
    assert len(s.stored.to_json()["data"]) < 11 * 12_000
    assert caplog.text.count("set the option 'checkpointLocation' of the reader") == 1


def test_the_option_may_come_later_and_must_not_go(kept_beside, source_harness):
    s = Stream(source_harness)
    s.batch(*names(0, 3000))
    beside = kept_beside()
    beside.restart(s.stored)
    beside.background()
    stored = beside.batch("one more")
    assert len(stored.to_json()["data"]) < 1000 and len(beside.runs()) == 1
    s.stored = stored
    with pytest.raises(BadConfigurationError, match="set the option 'checkpointLocation' of the reader"):
        s.restart()


@pytest.mark.parametrize("damage", ["gone", "cut", "another file"])
def test_what_is_missing_is_an_error_and_never_read_again(kept_beside, tmp_path, damage):
    s = kept_beside()
    s.batch(*names(0, 3000))
    s.batch("one more")
    (run,) = (tmp_path / "checkpoint").glob("penstock/sources/*/*")
    if damage == "gone":
        run.unlink()
    else:
        run.write_bytes(run.read_bytes()[:-8] if damage == "cut" else b"x" * run.stat().st_size)
    word = "is gone" if damage == "gone" else "is damaged"
    with pytest.raises(FatalError, match=rf"what 3000 files were read, {word}: put it back"):
        s.restart()


def test_every_offset_that_spark_keeps_can_be_gone_back_to(kept_beside):
    """Through merges, and with runs removed that no offset can name any more."""
    s, offsets, read = kept_beside(), [], []
    for number in range(400):
        count = 1000 if number < 150 else 1
        new = names(len(read), count)
        offsets.append(s.batch(*new))
        read += new
    kept = len(s.runs())
    for back in (0, 1, 50, 99):
        s.restart(offsets[len(offsets) - 1 - back])
        assert len(s.tracker) == len(read) - back
    assert kept <= 30, "merged runs go when no offset can name them"


def test_what_a_killed_process_wrote_goes_as_well_and_what_a_later_one_wrote_stays(kept_beside):
    s = kept_beside()
    before = s.batch("a")
    s.batch(*names(0, 2000))  # stored behind this offset, which is lost with the process
    orphan = s.runs()
    s.stored = before
    s.restart()
    s.batch(*names(0, 2000))
    sleeper = s.tracker
    assert len(s.runs()) == 2
    for number in range(300):
        s.batch(f"b{number}")
    s.restart()
    s.background()
    assert orphan[0] not in s.runs() and len(s.runs()) == 1
    live = s.runs()
    s.tracker = sleeper
    s.background()
    assert s.runs() == live


def test_what_killed_writes_left_is_removed_when_a_query_starts(kept_beside, tmp_path, leave_killed_writes):
    s = kept_beside()
    s.batch(*names(0, 2000))
    (run,) = tmp_path.glob("checkpoint/penstock/sources/*/*")
    left = leave_killed_writes(run.parent, run.name)
    s.restart()
    s.background()
    assert left.swept


def test_a_store_that_fails_costs_room_in_the_offsets_and_nothing_else(kept_beside, source_harness, caplog):
    s = kept_beside()
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr("penstock_filesystem.source.tracking._run_store.RunStore.write", _refuse)
        for path in names(0, 2000):
            s.tracker.add(path)
        s.tracker.maintain()
        s.context.run_calls()
        s.context.calls.clear()
    assert "stays in the query's offsets until it can be stored: 503 Slow Down" in caplog.text
    assert source_harness.metrics.snapshot()["failed_tidyings"] == 1
    s.batch("one more")
    s.restart()
    assert len(s.tracker) == 2001
    s.batch("two more")
    assert len(s.batch("three more").to_json()["data"]) < 1000, "stored behind the next batch"


def _refuse(*_):
    raise OSError("503 Slow Down")


class SentTwice(LocalStorage):
    """Lost the answer to each request to create: the answer to the next one is that the file is there."""

    def create(self, path, data):
        assert super().create(path, data)
        return False


def test_a_run_is_stored_though_the_request_was_sent_twice(tmp_path):
    store = RunStore(SentTwice(), str(tmp_path))
    stored = store.write(FingerprintRun(b"12345678"), 0)
    assert store.read(stored.name, 1).fingerprints == b"12345678"
    assert [path.name for path in tmp_path.iterdir()] == [stored.name]
