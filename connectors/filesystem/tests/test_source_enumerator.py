"""Hand-out: order, limits, restart, late files, the size of the state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError
from penstock.source import ReadLimits
from penstock_filesystem.source.seen import SeenFiles
from penstock_filesystem.source.split import FileSplit
from penstock_filesystem.source.state import FileEnumeratorSerializer, FileEnumeratorState

SECOND = 10**9
GOLDEN = Path(__file__).parent / "golden"


def put(directory, name, seconds, data="x\n"):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)
    os.utime(path, ns=(0, int(seconds * SECOND)))
    return str(path)


def names(splits):
    return [split.path.rsplit("/", 1)[1] for split in splits]


@pytest.fixture
def stream(tmp_path, source_harness):
    """Starts (or restarts from a stored state) an enumerator on tmp_path/in."""

    class Stream:
        directory = tmp_path / "in"

        def __init__(self, stored=None, **options):
            self.directory.mkdir(exist_ok=True)
            self.source = source_harness.source(self.directory, format="text", **options)
            self.context = source_harness.context()
            serializer = self.source.enumerator_serializer
            state = None if stored is None else serializer.unpack(stored)
            self.enumerator = self.source.create_enumerator(self.context, state)
            self.enumerator.start()

        def stored(self):
            return self.source.enumerator_serializer.pack(self.enumerator.snapshot_state())

        def look(self):
            self.context.run_calls()

        def take(self, limits=None):
            return source_harness.batch(self.enumerator, limits or self.source.read_limits())

        def put(self, name, seconds, data="x\n"):
            return put(self.directory, name, seconds, data)

    return Stream


def test_order_is_by_time_then_path(stream):
    s = stream(discoveryInterval="5s")
    assert s.context.intervals == [5000]
    s.put("c", 1)
    s.put("b", 2)
    s.put("a", 2)
    s.put("d", 1.5)
    assert names(s.take()) == ["c", "d", "a", "b"]
    assert s.take() == []
    s.put("e", 1.7)
    assert s.take() == []  # nothing is listed on the way of a request
    s.look()
    assert names(s.take()) == ["e"]


def test_limits_on_files_and_bytes(stream):
    s = stream(maxFilesPerTrigger=2, maxSplitBytes=4)
    for i in range(5):
        s.put(f"f{i}", i, "0123456789")
    assert s.source.read_limits() == ReadLimits(2, None)
    assert stream(maxBytesPerTrigger="1mb").source.read_limits() == ReadLimits(10_000, 1 << 20)
    first = s.take()
    assert {split.path[-1] for split in first} == {"0", "1"}
    # Three ranges a file; the limit stopped asking once a second file had begun.
    assert [(split.start, split.length) for split in first[:3]] == [(0, 4), (4, 4), (8, 2)]
    cut = s.take(ReadLimits(max_bytes=5))
    assert sum(split.length for split in cut) >= 5
    everything = first + cut
    while batch := s.take():
        everything += batch
    assert sum(split.length for split in everything) == 50 and len(set(everything)) == 15
    assert [split.is_last for split in everything[:3]] == [False, False, True]


def test_a_file_cut_between_batches_goes_on_after_a_restart(stream):
    s = stream(maxSplitBytes=3)
    s.put("a", 1, "0123456789")
    first = s.take(ReadLimits(max_bytes=3))
    again = stream(s.stored(), maxSplitBytes=3)
    rest = again.take()
    assert [(split.start, split.length) for split in [*first, *rest]] == [(0, 3), (3, 3), (6, 3), (9, 1)]


def test_a_small_tail_is_not_a_split_of_its_own(stream):
    s = stream(maxSplitBytes=10)
    s.put("a", 1, "01234567890")
    assert [split.length for split in s.take()] == [11]


def test_a_restart_hands_out_exactly_what_was_not(stream):
    s = stream()
    for i in range(20):
        s.put(f"f{i:02}", 100 + i // 7)
    done = names(s.take(ReadLimits(max_groups=8)))
    stored = s.stored()
    rest = names(s.take())
    again = stream(stored)
    assert names(again.take()) == rest and len(done + rest) == 20
    assert again.stored() == s.stored()


def test_splits_taken_back_come_again_first_and_survive_a_restart(stream):
    s = stream()
    for name in "abc":
        s.put(name, 1)
    taken = s.take(ReadLimits(max_groups=2))
    s.enumerator.add_splits_back(taken)
    assert names(stream(s.stored()).take()) == ["a", "b", "c"]
    assert names(s.take()) == ["a", "b", "c"]


def test_available_now_ends_with_what_is_there(stream):
    s = stream()
    s.put("a", 1)
    s.enumerator.prepare_for_available_now()
    assert s.enumerator.describe_backlog() == {"files": 1, "bytes": 2, "tracked_files": 0}
    s.put("b", 2)
    s.look()
    assert not s.enumerator.is_exhausted()
    assert names(s.take()) == ["a"]
    assert s.enumerator.is_exhausted() and s.take() == []


def test_a_pending_file_that_changed_is_handed_out_as_it_is_now(stream):
    s = stream()
    s.put("a", 1)
    s.put("b", 2)
    s.look()
    s.put("a", 3, "longer\n")
    s.look()
    assert [(split.path[-1], split.size) for split in s.take()] == [("b", 2), ("a", 7)]


def test_a_file_removed_before_it_was_handed_out_is_not(stream):
    s = stream()
    for name in "abc":
        s.put(name, 1)
    s.look()
    (s.directory / "b").unlink()
    s.put("d", 2)
    s.look()
    assert names(s.take()) == ["a", "c", "d"]
    assert s.enumerator.describe_backlog()["bytes"] == 0


def test_an_old_file_inside_the_window_is_read(stream):
    s = stream(latenessWindow="60s")
    s.put("new", 1000)
    s.take()
    s.put("old", 950)
    s.look()
    assert names(s.take()) == ["old"]
    assert names(stream(s.stored(), latenessWindow="60s").take()) == []


@pytest.fixture
def late_stream(stream):
    """A stream whose edge has moved: 1,700 files, of which at most 1,000 are remembered."""

    def start(**options):
        s = stream(maxTrackedFiles=1000, **options)
        for i in range(1700):
            s.put(f"f{i:04}", 1000 + i, "")
        s.take()
        assert s.enumerator.describe_backlog()["edge_ms"] == 1_999_000
        s.put("late", 900)
        s.look()
        return s

    return start


def test_late_files_are_skipped_and_counted(late_stream, source_harness, caplog):
    s = late_stream()
    assert s.take() == []
    assert source_harness.metrics.snapshot()["late_files"] == 1
    assert "1 late file(s)" in caplog.text and "late: not newer" in caplog.text


def test_late_files_are_read_on_request_also_after_a_restart(late_stream, stream):
    s = late_stream(lateFiles="read")
    again = stream(s.stored(), maxTrackedFiles=1000, lateFiles="read")
    for one in (s, again):
        assert names(one.take()) == ["late"]
        assert one.take() == []
    assert stream(again.stored(), maxTrackedFiles=1000, lateFiles="read").take() == []


@pytest.mark.parametrize("policy", ["read", "skip", "fail"])
def test_files_that_came_late_while_the_stream_was_down(late_stream, stream, source_harness, policy):
    s = late_stream()
    stored = s.stored()
    s.put("late2", 901)
    (s.directory / "f0003").unlink()  # gone since it was read: not late
    source_harness.metrics.take()
    again = stream(stored, maxTrackedFiles=1000, lateFiles=policy)
    if policy == "fail":
        for _ in range(2):
            with pytest.raises(BadDataError, match=r"1 late file\(s\), the first .*/late2"):
                again.take()
            again = stream(stored, maxTrackedFiles=1000, lateFiles=policy)
    else:
        assert names(again.take()) == (["late2"] if policy == "read" else [])
        assert source_harness.metrics.snapshot()["late_files"] == 1
        once_more = stream(again.stored(), maxTrackedFiles=1000, lateFiles=policy)
        assert once_more.take() == [] and source_harness.metrics.snapshot()["late_files"] == 1


def test_files_below_the_edge_count_as_read_where_that_cannot_be_told(late_stream, stream, caplog):
    s = late_stream()
    for i in range(1000):
        (s.directory / f"f{i:04}").unlink()
    s.put("late2", 901)
    # A sketch that is too full may still tell of a few: which ones depends on the paths.
    assert names(stream(s.stored(), maxTrackedFiles=1000, lateFiles="read").take()) in ([], ["late2"])
    assert "the edge are taken as read unless they are named below" in caplog.text


def test_a_late_file_that_changes_is_read_once(late_stream):
    s = late_stream(lateFiles="read")
    s.put("late", 901, "whole\n")
    s.look()
    assert [split.size for split in s.take()] == [6]
    s.put("late", 902, "written to again\n")
    s.look()
    assert s.take() == []


def test_late_files_fail_on_request(late_stream):
    with pytest.raises(BadDataError, match=r"late file\(s\), the first .*/late.*lateFiles"):
        late_stream(lateFiles="fail").take()


def failing(discovery, monkeypatch, error=None):
    error = error or OSError("no route")
    monkeypatch.setattr(discovery, "_list_all", lambda: (_ for _ in ()).throw(error))


def test_a_first_listing_that_fails_is_reported_and_may_be_tried_again(stream, monkeypatch):
    s = stream()
    failing(s.enumerator._discovery, monkeypatch)
    with pytest.raises(RetriableError, match="could not be listed: no route"):
        s.take()
    monkeypatch.undo()
    s.put("a", 1)
    s.look()
    assert names(s.take()) == ["a"]


def test_a_failed_listing_that_nobody_asked_about_is_forgotten_by_the_next_one(stream):
    s = stream()
    s.enumerator._accept(None, OSError("no route"))
    s.put("a", 1)
    s.look()
    assert names(s.take()) == ["a"]


def test_a_late_file_is_an_error_also_if_the_next_listing_succeeds(late_stream):
    s = late_stream(lateFiles="fail")
    s.look()
    with pytest.raises(BadDataError, match="late"):
        s.take()


@pytest.mark.parametrize("error", [OSError("503 Slow Down"), RetriableError("503 Slow Down")])
def test_listings_that_fail_between_others_end_nothing(stream, monkeypatch, caplog, source_harness, error):
    s = stream()
    s.put("a", 1)
    s.put("b", 2)
    assert names(s.take(ReadLimits(max_groups=1))) == ["a"]
    with monkeypatch.context() as broken:
        failing(s.enumerator._discovery, broken, error)
        s.put("c", 3)
        for _ in range(3):
            s.look()
        assert names(s.take()) == ["b"], "what is known is read"
    assert "could not be listed: 503 Slow Down" in caplog.text
    assert source_harness.metrics.snapshot()["failed_listings"] == 3
    s.look()
    assert names(s.take()) == ["c"]


def test_listings_that_fail_for_long_end_the_stream(stream, monkeypatch):
    s = stream()
    s.put("a", 1)
    s.take()
    failing(s.enumerator._discovery, monkeypatch)
    s.look()
    assert s.take() == []
    monkeypatch.setattr("penstock_filesystem.source.enumerator._LISTING_PATIENCE_S", 0.0)
    s.look()
    with pytest.raises(RetriableError, match="could not be listed: no route"):
        s.take()


def test_a_listing_that_is_refused_ends_the_stream_at_once(stream, monkeypatch):
    s = stream()
    s.take()
    failing(s.enumerator._discovery, monkeypatch, BadConfigurationError("no such bucket"))
    s.look()
    with pytest.raises(BadConfigurationError, match="no such bucket"):
        s.take()


@pytest.mark.parametrize(
    "files",
    [
        60_000,
        pytest.param(1_000_000, marks=pytest.mark.exhaustive("a million files; three times what is kept stays")),
    ],
)
@pytest.mark.parametrize("same_time", [True, False])
def test_the_state_stays_small_however_many_files(same_time, files, calls_made):
    seen = SeenFiles(7 * 86_400 * SECOND, 20_000)
    prefix = "/data/landing/a-rather-long-directory-name/region=europe/day=2026-11-21/part-"
    for i in range(files):
        seen.add((10**18 if same_time else 10**18 + i * 1000, f"{prefix}{i:08}-c000.csv.gz"))
    assert 19_000 < len(seen) <= 20_000
    serializer = FileEnumeratorSerializer()
    stored = serializer.pack(
        FileEnumeratorState(edge=seen.edge, chunks=seen.freeze(), below_edge=seen.freeze_below_edge())
    )
    assert len(str(stored.to_json())) < 1_000_000

    def restore():
        state = serializer.unpack(stored)
        return SeenFiles(7 * 86_400 * SECOND, 20_000, state.edge, state.chunks, state.below_edge)

    assert calls_made(restore) < len(seen), "a restart takes less than a call for each file that is remembered"
    again = restore()
    assert again.contains(f"{prefix}{files - 1:08}-c000.csv.gz") and len(again) == len(seen)
    assert not again.contains(f"{prefix}{files:08}-c000.csv.gz")
    assert again.is_below_edge((10**18, f"{prefix}00000000-c000.csv.gz"))
    assert again.freeze() == seen.freeze()


def test_files_that_come_in_reverse_order_stay_bounded():
    seen = SeenFiles(10**6 * SECOND, 1000)
    for i in range(10_000, 0, -1):
        seen.add((i * SECOND, f"f{i}"))
    assert len(seen) <= 1000
    assert all(seen.contains(f"f{i}") or seen.is_below_edge((i * SECOND, f"f{i}")) for i in range(1, 10_001))


def test_the_window_forgets_what_is_older():
    seen = SeenFiles(100 * SECOND, 100_000)
    for i in range(5_000):
        seen.add((i * SECOND, f"f{i}"))
    assert len(seen) <= 1_000 and seen.edge is not None and 4_000 * SECOND < seen.edge[0] < 4_900 * SECOND


def golden_state():
    seen = SeenFiles(100 * SECOND, 1000)
    for i in range(1600):
        seen.add((1_700_000_001_000_000_000 + i, f"/in/é {i}.csv"))
    return FileEnumeratorState(
        edge=seen.edge,
        chunks=seen.freeze(),
        below_edge=seen.freeze_below_edge(),
        rest=FileSplit("/in/b.csv", 1_700_000_002_000_000_000, 100, 40, 60),
        returned=(FileSplit("/in/a.csv", 1_700_000_001_000_000_000, 10, 0, 10),),
        late=(FileSplit("/in/late.csv", 5, 7, 0, 7),),
    )


def test_golden_stored_forms_still_open(source_harness, tmp_path):
    source = source_harness.source(tmp_path, format="text")
    split = FileSplit("/in/é 1.csv", 1_700_000_000_123_456_789, 1000, 100, 50)
    assert source.split_serializer.deserialize(1, (GOLDEN / "split-v1.bin").read_bytes()) == split
    assert source.enumerator_serializer.deserialize(1, (GOLDEN / "enumerator-v1.bin").read_bytes()) == golden_state()
    assert source.split_serializer.deserialize(1, source.split_serializer.serialize(split)) == split
    for serializer in (source.split_serializer, source.enumerator_serializer):
        with pytest.raises(FatalError, match="version 9"):
            serializer.deserialize(9, b"{}")


def test_task_size_follows_sparks_rule(source_harness, tmp_path):
    source = source_harness.source(tmp_path, format="text", maxSplitBytes="10mb", openCostInBytes="1mb")
    assert [source.target_task_bytes(4, mb << 20) >> 20 for mb in (1, 20, 400)] == [1, 5, 10]
