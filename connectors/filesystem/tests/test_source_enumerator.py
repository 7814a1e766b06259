"""Hand-out: order, limits, restart, listings that fail, stored forms."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.serialization import Versioned
from penstock.source import ReaderContext, ReadLimits
from penstock_filesystem.source._split import Edge, FileSplit, FileSystemEnumeratorState, StoredRun
from penstock_filesystem.source.tracking._sketch import SetSketch
from penstock_filesystem.source.tracking._tracked_files import FingerprintRun, TrackedFiles, fingerprint

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


def test_a_file_that_was_begun_in_ranges_is_not_read_again_as_a_whole(stream):
    s = stream(maxFilesPerTrigger=1, maxSplitBytes=4)
    s.put("f", 1, "one\ntwo\nten\n")
    s.look()
    (first, *_) = s.take(ReadLimits(max_bytes=4))
    again = stream(s.stored(), wholetext=True)
    (rest,) = again.take()
    assert (first.start, first.length, rest.start) == (0, 4, 4)
    reader = again.source.create_reader(ReaderContext(pa.schema([("value", pa.string())]), Metrics()))
    with pytest.raises(BadConfigurationError, match=r"was begun with other options, in ranges, .*format=text"):
        reader.handle_splits_changes([rest])
    reader.close()


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


def test_a_file_is_read_whatever_its_time_and_whenever_it_comes(stream):
    """Of thousands that were read, so many that a state of the first edition had forgotten some of them."""
    s = stream()
    for i in range(1700):
        s.put(f"f{i:04}", 1000 + i, "")
    s.take()
    s.put("late", 900)
    s.look()
    assert names(s.take()) == ["late"]
    stored = s.stored()
    s.put("came while it was down", 901)
    for i in range(0, 1700, 2):
        (s.directory / f"f{i:04}").unlink()  # any retention does
    again = stream(stored)
    assert names(again.take()) == ["came while it was down"]
    assert stream(again.stored()).take() == []


def test_a_listing_that_leaves_files_out_for_a_while_makes_none_come_again(stream):
    s = stream()
    for name in "abc":
        s.put(name, 1)
    assert len(s.take()) == 3
    away = s.directory.rename(s.directory.with_name("away"))
    s.look()
    assert s.take() == []
    away.rename(s.directory)
    s.put("d", 0.5)
    for one in (s, stream(s.stored())):
        one.look()
        assert names(one.take()) == ["d"]


def test_a_file_that_is_written_to_again_is_reported(stream, source_harness, caplog):
    s = stream()
    s.put("a", 1)
    assert names(s.take()) == ["a"]
    s.put("a", 2, "x\nmore\n")
    s.look()
    assert s.take() == []
    assert source_harness.metrics.snapshot()["rewritten_files"] == 1
    assert "a was written to again after it was handed out" in caplog.text
    assert stream(s.stored()).take() == []


def failing(discovery, monkeypatch, error=None):
    error = error or OSError("no route")
    monkeypatch.setattr(discovery, "_list_all", lambda _: (_ for _ in ()).throw(error))


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
    monkeypatch.setattr("penstock_filesystem.source._enumerator._LISTING_PATIENCE_S", 0.0)
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


def first_edition_state():
    """What ``enumerator-v1.json`` holds: 1,600 files of which the first 500 are below the edge, and three splits."""
    cut = FileSplit("/in/b.csv", 1_700_000_002_000_000_000, 100, 40, 60)
    returned = (FileSplit("/in/a.csv", 1_700_000_001_000_000_000, 10, 0, 10), FileSplit("/in/late.csv", 5, 7, 0, 7))
    return cut, returned


def golden_state():
    return FileSystemEnumeratorState(
        newest=FingerprintRun.of(fingerprint(f"/in/é {i}.csv") for i in range(20)).fingerprints,
        runs=(
            StoredRun(8000, "000000000123-4c9184f37cff01bcdc32dc486ec36961.run"),
            StoredRun(3, None, FingerprintRun.of([3, 1, 2]).fingerprints),
        ),
        place="0d0f4ba1c1a84a9f8a9a1bb7c3a3fd7e",
        commits=130,
        replaced=(("000000000007-900150983cd24fb0d6963f7d28e17f72.run", 123),),
        rest=FileSplit("/in/b.csv", 1_700_000_002_000_000_000, 100, 40, 60),
        returned=(FileSplit("/in/a.csv", 1_700_000_001_000_000_000, 10, 0, 10),),
        edge=Edge(5, "/in/edge.csv", SetSketch().to_bytes()),
    )


def test_golden_stored_forms_still_open(source_harness, tmp_path):
    source = source_harness.source(tmp_path, format="text")
    split = FileSplit("/in/é 1.csv", 1_700_000_000_123_456_789, 1000, 100, 50)
    assert source.split_serializer.deserialize(1, (GOLDEN / "split-v1.bin").read_bytes()) == split
    assert source.split_serializer.deserialize(1, source.split_serializer.serialize(split)) == split
    serializer = source.enumerator_serializer
    stored = {v: Versioned.from_json(json.loads((GOLDEN / f"enumerator-v{v}.json").read_text())) for v in (1, 2)}
    assert serializer.unpack(stored[2]) == golden_state() and serializer.pack(golden_state()) == stored[2]
    first = serializer.unpack(stored[1])
    assert (first.rest, first.returned) == first_edition_state() and first.edge is not None
    tracked = TrackedFiles([FingerprintRun(run.fingerprints) for run in first.runs])
    assert [i for i in range(1600) if not tracked.contains(f"/in/é {i}.csv")] == list(range(1600 - len(tracked)))
    for either in (source.split_serializer, serializer):
        with pytest.raises(FatalError, match="version 9"):
            either.deserialize(9, b"{}")


def test_task_size_follows_sparks_rule(source_harness, tmp_path):
    source = source_harness.source(tmp_path, format="text", maxSplitBytes="10mb", openCostInBytes="1mb")
    assert [source.target_task_bytes(4, mb << 20) >> 20 for mb in (1, 20, 400)] == [1, 5, 10]
