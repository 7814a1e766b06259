"""The committers by themselves, on a local disk and on a model of S3: what is looked at, published, sealed, removed."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import DataLostError, RetriableError
from penstock.metrics import Metrics
from penstock.retry import RetryPolicy
from penstock.sink import Found, Kept, WriterContext
from penstock.storage import LocalStorage
from penstock.testing.simulation import Scheduler
from penstock.testing.simulation._choices import PlayedChoices
from penstock.testing.simulation._target import use
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._committer import FileSystemCommitter
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._multipart import MultipartCommitter, MultipartStaging
from penstock_filesystem.sink.staging._rename import RenameCommitter
from penstock_filesystem.sink.staging._staging import open_chunk
from penstock_filesystem.sink.staging._uploads import Upload, marker_of
from suite.file_model import S3Target
from suite.scripted_sink import scripted_system

HIDDEN = ".penstock/q"


def chunk(path):
    return Chunk("", path, 3, 1, "json", ".json", "", 0, 0, 0)


# --- by rename --------------------------------------------------------------------------------------------------------


class Disk:
    def __init__(self, root):
        self.root, self.metrics, self.synced = root, Metrics(), []
        self.storage = LocalStorage()
        self.storage.sync_names = lambda root, paths: self.synced.append((root, list(paths)))
        self.committer = RenameCommitter(Layout(self.storage, str(root), "part", ""), "q", self.metrics)

    def put(self, path, data=b""):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)
        return path

    def part(self, name="a", base=5, there=("hidden", "witness")):
        part = PendingPart("rename", f"bucket/{name}", 3, 1, hidden=f"{HIDDEN}/{base}/{name}")
        for what in there:
            self.put(getattr(part, what), b"" if what == "witness" else b"abc")
        return part

    @property
    def files(self):
        return sorted(
            os.path.relpath(os.path.join(at, name), self.root) for at, _, ns in os.walk(self.root) for name in ns
        )


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (["hidden", "witness"], Found.OPEN),
        (["hidden"], Found.OPEN),
        (["final", "witness"], Found.COMMITTED),
        (["final"], Found.COMMITTED),
        (["witness"], Found.COMMITTED),  # and a reader has taken it away
        (["sealed", "witness"], Found.LOST),
        (["sealed", "final"], Found.LOST),
        ([], Found.LOST),
    ],
)
def test_what_became_of_a_file(disk, there, found):
    assert disk.committer.look([disk.part(there=there)]) == [found]


@pytest.mark.parametrize("size", [0, 2, 4])
def test_a_file_of_another_size_is_not_the_one(disk, size):
    part = disk.part(there=["final"])
    disk.put(part.final, b"x" * size)
    assert disk.committer.look([part]) == [Found.LOST]
    disk.put(part.final, b"abc")
    disk.put(part.witness)
    disk.put(part.hidden, b"x" * size)
    assert disk.committer.look([part]) == [Found.LOST]


def test_sizes_are_compared_by_value(disk):
    part = replace(disk.part(there=[]), size=100_000)
    disk.put(part.hidden, b"x" * 100_000)
    assert disk.committer.look([part]) == [Found.OPEN]
    disk.storage.move(str(disk.root / part.hidden), str(disk.root / part.final))
    assert disk.committer.look([part]) == [Found.COMMITTED]


def test_publishing_gives_files_their_names(disk):
    open_, done, lost = disk.part("a"), disk.part("b", there=["final", "witness"]), disk.part("c", there=[])
    assert disk.committer.publish([open_, done, lost]) == [Found.COMMITTED, Found.COMMITTED, Found.LOST]
    assert disk.files == [f"{HIDDEN}/5/a.witness", f"{HIDDEN}/5/b.witness", "bucket/a", "bucket/b"]
    assert disk.metrics.take() == {"parts_published": 2}
    root = str(disk.root)
    assert disk.synced == [(root, [f"{root}/bucket/{name}" for name in "abc"])], "durable on return"


def test_sealing_takes_the_hidden_names_away(disk):
    open_, done = disk.part("a"), disk.part("b", there=["final", "witness"])
    disk.committer.seal([done, open_])
    assert disk.committer.look([open_, done]) == [Found.LOST, Found.COMMITTED]
    assert disk.committer.publish([open_]) == [Found.LOST]
    assert (disk.root / open_.sealed).read_bytes() == b"abc"


def test_discarding(disk):
    part, sealed, adopted = disk.part("a"), disk.part("b", there=["sealed", "witness"]), disk.part("c")
    path = disk.put(f"{HIDDEN}/5/chunk")
    disk.committer.discard([part, sealed, replace(adopted, adopted=True)], [chunk(path), chunk(f"{HIDDEN}/5/gone")])
    assert disk.files == [adopted.hidden, adopted.witness]


@pytest.mark.parametrize(
    "ask",
    [
        lambda disk, part: disk.committer.look([part]),
        lambda disk, part: disk.committer.publish([part]),
        lambda disk, part: disk.committer.seal([part]),
        lambda disk, part: disk.committer.are_there([chunk(part.hidden)]),
    ],
    ids=["look", "publish", "seal", "are there"],
)
def test_nothing_is_said_of_what_is_not_mounted(tmp_path, ask):
    disk = Disk(tmp_path / "mount")
    part = disk.part()
    (tmp_path / "mount").rename(tmp_path / "away")
    with pytest.raises(RetriableError, match="mount is not there: is it mounted"):
        ask(disk, part)
    assert not (tmp_path / "mount").exists(), "no directory is made in its place"
    (tmp_path / "away").rename(tmp_path / "mount")
    assert disk.committer.look([part]) == [Found.OPEN]


class OutageOfCalls(LocalStorage):
    """Is away from its call ``first`` until its call ``end``. With ``end`` None it only counts."""

    def __init__(self, mount, first=0, end=None):
        super().__init__()
        self.mount, self.first, self.end, self.calls = mount, first, end, 0

    def __getattribute__(self, name):
        if name in ("size", "move", "is_away", "list_tree", "fs"):
            self._count()
        return super().__getattribute__(name)

    def _count(self):
        aside = self.mount.with_name("aside")
        if self.end is not None and self.calls == self.first:
            self.mount.rename(aside)
        if self.end is not None and self.calls == self.end:
            aside.rename(self.mount)
        self.calls += 1


@pytest.mark.parametrize(
    ("there", "ask", "answer"),
    [
        ("hidden", lambda layout, committer, part: committer.look([part]), [Found.OPEN]),
        ("final", lambda layout, committer, part: committer.look([part]), [Found.COMMITTED]),
        ("hidden", lambda layout, committer, part: committer.publish([part]), [Found.COMMITTED]),
        ("final", lambda layout, committer, part: committer.publish([part]), [Found.COMMITTED]),
        ("hidden", lambda layout, committer, part: committer.seal([part]), None),
        ("hidden", lambda layout, committer, part: committer.are_there([chunk(part.hidden)]), [True]),
        ("hidden", lambda layout, committer, part: open_chunk(layout, chunk(part.hidden)).close(), None),
    ],
)
def test_nothing_is_lost_by_an_outage_between_any_two_calls(tmp_path, there, ask, answer):
    """A look may find nothing since the directory is away, and the check that it is there may come when it is back."""
    most, outages = 1, 0
    for first in range(20):
        for end in range(first + 1, most + 1):
            name = f"{first}-{end}"
            disk = Disk(tmp_path / name / "mount")
            part = disk.part(there=[there])
            storage = OutageOfCalls(disk.root, first, end)
            storage.sync_names = lambda root, paths: None
            layout = Layout(storage, str(disk.root), "part", "")
            committer = RenameCommitter(layout, "q", Metrics())
            try:
                got = ask(layout, committer, part)
            except RetriableError:
                if storage.calls <= end:
                    (tmp_path / name / "aside").rename(disk.root)
                storage.end = None
                got = ask(layout, committer, part)
            if got == [Found.OPEN] != answer:  # not published, and said
                got = ask(layout, committer, part)
            assert got == answer, (first, end)
            if ask.__code__.co_names == ("seal",):
                assert disk.committer.publish([part]) == [Found.LOST]
            most, outages = max(most, storage.calls), outages + 1
    assert outages > 2


def test_carried_files_are_looked_for(disk):
    there = disk.put(f"{HIDDEN}/5/chunk")
    assert disk.committer.are_there([chunk(f"{HIDDEN}/5/gone"), chunk(there)]) == [False, True]


def test_garbage_is_what_was_made_for_earlier_bases_and_is_not_named(disk):
    old, named, sealed = disk.part("old", 4), disk.part("named", 4), disk.part("sealed", 4, there=["sealed"])
    now = disk.part("now", 5)
    carried, left = disk.put(f"{HIDDEN}/4/carried.chunk"), disk.put(f"{HIDDEN}/3/left.chunk")
    foreign = disk.put(f"{HIDDEN}/foreign"), disk.put(f"{HIDDEN}/4/deep/foreign"), disk.put(".penstock/other/4/x")
    kept = Kept(5, 9, [named, sealed], [chunk(carried)])
    assert disk.committer.clear(kept) == 3
    assert not {old.hidden, old.witness, left} & set(disk.files)
    assert {named.hidden, named.witness, sealed.sealed, now.hidden, now.witness, carried, *foreign} == set(disk.files)
    assert not (disk.root / HIDDEN / "3").exists(), "an empty directory goes"
    assert disk.committer.clear(kept) == 0


def test_no_garbage_is_no_request(disk):
    disk.part()
    disk.committer._remove = lambda paths: pytest.fail("it removes")
    assert disk.committer.clear(Kept(5, 9)) == 0


def test_directories_of_others_are_not_removed(disk):
    disk.put(f"{HIDDEN}/4/x")
    (disk.root / HIDDEN / "4" / "deep").mkdir()
    removed = []
    disk.storage.remove_empty = removed.append
    disk.committer._remove([f"{HIDDEN}/4/x", f"{HIDDEN}/4/y", f"{HIDDEN}/foreign"])
    assert removed == [f"{disk.root}/{HIDDEN}/4"]


@pytest.mark.parametrize("others", [True, False])
def test_leaving_takes_directories_away_that_nobody_uses(disk, others):
    disk.put("bucket/visible")
    os.makedirs(disk.root / HIDDEN / "4")
    if others:
        disk.put(".penstock/other/5/x")
    disk.committer.leave()
    assert (disk.root / ".penstock").exists() == others and not (disk.root / HIDDEN).exists()
    assert (disk.root / "bucket/visible").exists()


# --- by multipart upload ----------------------------------------------------------------------------------------------


class Bucket:
    def __init__(self):
        self.model, self.metrics = S3Target(Scheduler(PlayedChoices([]))), Metrics()
        use(self.model)
        self.storage = self.model.storage()
        self.layout = Layout(self.storage, "bucket/tables", "part", "")
        self.committer = MultipartCommitter(self.layout, "q", self.metrics)

    def part(self, name="a", base=5):
        upload = Upload(self.layout, f"{HIDDEN}/{base}/{name}.upload", f"dir/{name}")
        assert upload.mark()
        upload.open()
        upload.write(b"abc")
        upload.flush()
        return PendingPart(
            "multipart", f"dir/{name}", 3, 1, upload_id=upload.id, parts=tuple(upload.parts), marker=upload.marker
        )

    def put(self, path):
        self.model.files[f"bucket/tables/{path}"] = b"abc"
        self.model.written[f"bucket/tables/{path}"] = self.model.scheduler.clock_us
        return path

    def end(self, part):
        """Whatever has ended the upload."""
        del self.model.uploads[part.upload_id]

    @property
    def files(self):
        return sorted(path.removeprefix("bucket/tables/") for path in self.model.files)

    @property
    def uploads(self):
        return sorted(path for path, _ in self.model.uploads.values())


@pytest.fixture
def bucket():
    with scripted_system() as system:
        made = Bucket()
        made.model.scheduler.clock_us = system.us = 1_800_000_000_000_000
        made.system = system
        yield made


DAY_US = 86_400_000_000


def test_what_became_of_an_upload(bucket):
    open_, done, taken, lost = (bucket.part(name) for name in "abcd")
    for part in (done, taken, lost):
        bucket.end(part)
    bucket.put(done.final)
    del bucket.model.files[f"bucket/tables/{lost.marker}"]
    bucket.system.us += DAY_US - 1
    found = [Found.OPEN, Found.COMMITTED, Found.COMMITTED, Found.LOST]
    assert bucket.committer.look([open_, done, taken, lost]) == found


def test_an_object_of_another_size_is_not_the_one(bucket):
    part = bucket.part()
    bucket.end(part)
    bucket.put(part.final)
    del bucket.model.files[f"bucket/tables/{part.marker}"]
    for size in (2, 4):
        assert bucket.committer.look([replace(part, size=size)]) == [Found.LOST]
    bucket.model.files[f"bucket/tables/{part.final}"] = b"x" * 1000
    assert bucket.committer.look([replace(part, size=int("1000"))]) == [Found.COMMITTED]


@pytest.mark.parametrize("later", [0, 1])
def test_after_a_day_a_marker_does_not_tell(bucket, later):
    part = bucket.part()
    bucket.end(part)
    bucket.system.us += DAY_US + later
    with pytest.raises(DataLostError, match="a lifecycle rule of the bucket has aborted the upload"):
        bucket.committer.look([part])


def test_completing_is_publishing(bucket):
    parts = [bucket.part(name) for name in "abc"]
    bucket.end(parts[1])
    bucket.put(parts[1].final)
    bucket.end(parts[2])
    del bucket.model.files[f"bucket/tables/{parts[2].marker}"]
    assert bucket.committer.publish(parts) == [Found.COMMITTED, Found.COMMITTED, Found.LOST]
    assert bucket.model.files["bucket/tables/dir/a"] == b"abc" and bucket.uploads == []
    assert bucket.metrics.take() == {"parts_published": 2}


@pytest.mark.parametrize("error", [OSError("away"), RetriableError("away")])
@pytest.mark.parametrize("is_done", [True, False])
def test_an_answer_that_was_lost_is_looked_up(bucket, monkeypatch, error, is_done):
    part = bucket.part()

    def complete(*arguments):
        if is_done:
            bucket.end(part)
            bucket.put(part.final)
        raise error

    monkeypatch.setattr("penstock_filesystem.sink.staging._multipart.complete_upload", complete)
    if is_done:
        assert bucket.committer.publish([part]) == [Found.COMMITTED]
    else:
        with pytest.raises(type(error)) as caught:
            bucket.committer.publish([part])
        assert caught.value is error


def test_sealing_takes_the_marker_first(bucket, monkeypatch):
    part, other = bucket.part("a"), bucket.part("b")
    order = []
    real = bucket.committer._delete
    monkeypatch.setattr(bucket.committer, "_delete", lambda paths: order.append(bucket.uploads) or real(paths))
    bucket.committer.seal([part])
    assert order == [["bucket/tables/dir/a", "bucket/tables/dir/b"]]
    assert bucket.uploads == ["bucket/tables/dir/b"] and bucket.files == [other.marker]
    assert bucket.committer.look([part]) == [Found.LOST]


@pytest.mark.parametrize("is_taken", [False, True])
def test_what_is_published_stays_so_when_its_upload_is_sealed(bucket, is_taken):
    part = bucket.part()
    assert bucket.committer.publish([part]) == [Found.COMMITTED]
    if is_taken:
        del bucket.model.files[f"bucket/tables/{part.final}"]
    bucket.committer.seal([part])
    bucket.model.files.pop(f"bucket/tables/{part.final}", None)  # a reader takes it away
    assert bucket.committer.look([part]) == [Found.COMMITTED]


def test_what_is_published_while_it_is_sealed_stays_so(bucket, monkeypatch):
    part = bucket.part()
    marker = bucket.model.files[f"bucket/tables/{part.marker}"]
    real = bucket.committer._delete

    def publish_then_delete(paths):
        bucket.committer.publish([part])
        real(paths)

    monkeypatch.setattr(bucket.committer, "_delete", publish_then_delete)
    bucket.committer.seal([part])
    assert bucket.model.files[f"bucket/tables/{part.marker}"] == marker
    del bucket.model.files[f"bucket/tables/{part.final}"]  # a reader takes it away
    assert bucket.committer.look([part]) == [Found.COMMITTED]


def test_discarding_uploads(bucket):
    part, other, path = bucket.part("a"), bucket.part("b"), bucket.put(f"{HIDDEN}/5/x.chunk")
    bucket.committer.discard([part], [chunk(path)])
    assert bucket.uploads == ["bucket/tables/dir/b"] and bucket.files == [other.marker]


def test_what_is_of_each_store():
    assert {"look", "_remove"} < FileSystemCommitter.__abstractmethods__


def test_carried_objects_are_looked_for(bucket):
    there = bucket.put(f"{HIDDEN}/5/x.chunk")
    assert bucket.committer.are_there([chunk(there), chunk(f"{HIDDEN}/5/gone")]) == [True, False]


def test_garbage_takes_its_uploads_along(bucket):
    old, named, now = bucket.part("old", 4), bucket.part("named", 4), bucket.part("now", 5)
    bucket.part("old.copy", 5)
    left = bucket.put(f"{HIDDEN}/4/x.chunk")
    assert bucket.committer.clear(Kept(5, 9, [named])) == 2
    assert bucket.uploads == [f"bucket/tables/dir/{name}" for name in ("named", "now", "old.copy")]
    assert not {old.marker, left} & set(bucket.files) and {named.marker, now.marker} < set(bucket.files)


def test_a_marker_is_revoked_first_and_goes_last(bucket, monkeypatch):
    """So an upload that is begun later notices, and one that was begun before is found, also after a crash."""
    part = bucket.part("old", 4)
    real_end, real_delete = bucket.committer._end_uploads, bucket.committer._delete

    def crash(paths):
        raise KeyboardInterrupt

    def end(path):
        late = Upload(bucket.layout, part.marker, part.final)  # marked before
        with pytest.raises(RetriableError, match="cleaned up"):
            late.open()
        assert bucket.uploads == [], "it has ended what it began"
        real_end(path)

    monkeypatch.setattr(bucket.committer, "_delete", crash)
    with pytest.raises(KeyboardInterrupt):
        bucket.committer.clear(Kept(5, 9))
    assert bucket.uploads == [] and bucket.files == [part.marker]
    monkeypatch.setattr(bucket.committer, "_delete", real_delete)
    monkeypatch.setattr(bucket.committer, "_end_uploads", end)
    assert bucket.committer.clear(Kept(5, 9)) == 1
    assert bucket.uploads == [] and bucket.files == []


def test_an_upload_that_is_not_open_has_nothing_to_abort(bucket, monkeypatch):
    upload = Upload(bucket.layout, f"{HIDDEN}/5/a.upload", "dir/a")
    monkeypatch.setattr(bucket.model, "ask", lambda *args, **named: (_ for _ in ()).throw(OSError("away")))
    with pytest.raises(OSError, match="away"):
        upload.open()
    upload.abort()
    assert bucket.uploads == []


def test_a_marker_that_another_clean_up_has_taken_is_no_error(bucket):
    part = bucket.part("old", 4)
    listed = [part.marker, f"{HIDDEN}/4/gone.upload"]
    bucket.committer._hidden_files = lambda: listed
    assert bucket.committer.clear(Kept(5, 9)) == 2 and bucket.uploads == []


def test_a_marker_that_comes_again_under_a_clean_up_is_left_to_the_next_one(bucket, monkeypatch):
    """The request that wrote it was made twice, and another clean-up came between. Without it, nothing leads to the
    upload.
    """
    late = Upload(bucket.layout, f"{HIDDEN}/4/late.upload", "dir/late")
    real_delete = bucket.committer._delete

    def delete(paths):
        late.mark()
        late.open()
        real_delete(paths)

    with monkeypatch.context() as patch:
        patch.setattr(bucket.committer, "_hidden_files", lambda: [late.marker])
        patch.setattr(bucket.committer, "_delete", delete)
        bucket.committer.clear(Kept(5, 9))
    assert bucket.uploads == [late.path] and bucket.files == [late.marker]
    assert bucket.committer.clear(Kept(5, 9)) == 1
    assert bucket.uploads == [] and bucket.files == []


def test_a_marker_whose_request_comes_late_lets_no_upload_begin(bucket, monkeypatch):
    """It came when a clean-up had taken the first one away, and before the deletion of another clean-up came as well:
    nothing led to the upload any more.
    """
    markers, late, ask = [], [], bucket.model.ask

    def losing_the_first_answer(label, effect, *torn, **how):
        if label.startswith("create"):
            markers.append(label.partition(" ")[2])
            if len(markers) == 1:
                late.append(effect)
                raise RetriableError("no answer")
        if label.startswith("begin"):
            bucket.committer.clear(Kept(5, 9))
            late.pop()()
        if label.startswith("head"):
            answer = ask(label, effect, *torn, **how)
            bucket.committer._delete([f"{HIDDEN}/{markers[-1].partition('/')[2]}"])  # of a clean-up that has begun it
            return answer
        return ask(label, effect, *torn, **how)

    monkeypatch.setattr(bucket.model, "ask", losing_the_first_answer)
    monkeypatch.setattr(bucket.system, "sleep", lambda seconds: None, raising=False)
    context = WriterContext("q", pa.schema([]), base=4, attempt_id="a" * 32, retry=RetryPolicy(60))
    staging = MultipartStaging(bucket.layout, context, "writer")
    file = staging.create()
    file.write(b"abc")
    with pytest.raises(RetriableError, match="cleaned up"):
        staging.part(file, staging.names.final("dir", ".txt"), 1)
    staging.abort()
    bucket.committer.clear(Kept(5, 9))
    assert bucket.uploads == [] and bucket.files == []


def test_an_upload_whose_marker_may_have_been_asked_for_twice_has_another_name(bucket, monkeypatch):
    ask = bucket.model.ask

    def repeating(label, effect, *torn, **how):
        bucket.model.repeats = int(label.startswith("create") and not bucket.files)
        return ask(label, effect, *torn, **how)

    monkeypatch.setattr(bucket.model, "ask", repeating)
    staging = MultipartStaging(bucket.layout, WriterContext("q", pa.schema([]), base=5, attempt_id="a" * 32), "writer")
    file, final = staging.create(), staging.names.final("dir", ".txt")
    file.write(b"abc")
    part = staging.part(file, final, 1)
    assert part.final != final and part.final.startswith("dir/part-0-0-") and part.final.endswith(".txt")
    assert bucket.committer.publish([part]) == [Found.COMMITTED] and bucket.committer.look([part]) == [Found.COMMITTED]
    assert bucket.uploads == [] and part.final in bucket.files and final not in bucket.files


def test_a_store_that_loses_every_answer_is_given_up(bucket):
    bucket.model.repeats = 1
    staging = MultipartStaging(bucket.layout, WriterContext("q", pa.schema([]), base=5, attempt_id="a" * 32), "writer")
    with pytest.raises(RetriableError, match="answers"):
        staging.part(staging.create(), staging.names.final("dir", ".txt"), 1)
    assert bucket.uploads == []


@pytest.mark.parametrize("key", ["other/a", "tables/../other/a", "tablesx/a", "other/../tables/../other/a"])
def test_a_marker_that_names_another_directory_ends_no_upload_there(bucket, key):
    marker = f"{HIDDEN}/4/x.upload"
    bucket.model.files[f"bucket/tables/{marker}"] = marker_of(key)
    bucket.model.written[f"bucket/tables/{marker}"] = bucket.model.scheduler.clock_us
    foreign = Upload(Layout(bucket.storage, "bucket", "part", ""), "m", "x")
    foreign.path, foreign.key = f"bucket/{key}", key
    foreign.mark()
    foreign.open()
    assert bucket.committer.clear(Kept(5, 9)) == 1
    assert bucket.uploads == [foreign.path]


def test_as_many_requests_are_made_at_once_as_the_store_takes(bucket, monkeypatch):
    asked, real = [], type(bucket.system).executor
    monkeypatch.setattr(
        type(bucket.system),
        "executor",
        lambda self, threads, name: asked.append((threads, name)) or real(self, threads, name),
    )
    monkeypatch.setattr(type(bucket.storage), "requests_at_once", 7)
    bucket.committer._in_parallel(str, range(100))
    bucket.committer._in_parallel(str, range(3))
    assert asked == [(7, "penstock-files"), (3, "penstock-files")]
