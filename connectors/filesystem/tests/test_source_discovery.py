"""Which files are found: nested, globs, several paths, skipped names; and how quickly."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from types import SimpleNamespace

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, RetriableError
from penstock.metrics import Metrics
from penstock.spark._coordinator import Coordinator
from penstock.storage import LocalStorage, MemoryStorage
from penstock.testing import away
from penstock_filesystem.source._split import FileSystemEnumeratorState
from penstock_filesystem.source.discovery import FileDiscovery, ModifiedBetween, _progress, glob_to_regex


@pytest.fixture
def tree(tmp_path):
    for name in (
        "a.csv",
        "b.txt",
        "x/c.csv",
        "x/y/d.csv",
        "_tmp/e.csv",
        ".h/f.csv",
        "x/_g.csv",
        ".i",
        "z/k.csv._COPYING_",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    return tmp_path


def found(source_harness, path, **options):
    splits = source_harness.splits(source_harness.source(path, format="text", **options))
    return sorted(split.path for split in splits)


def test_nested_directories_and_skipped_names(tree, source_harness):
    assert found(source_harness, tree) == [str(tree / n) for n in ("a.csv", "b.txt", "x/c.csv", "x/y/d.csv")]
    assert found(source_harness, tree, recursiveFileLookup=False) == [str(tree / n) for n in ("a.csv", "b.txt")]
    assert found(source_harness, tree, pathGlobFilter="*.{csv,json}") == [
        str(tree / n) for n in ("a.csv", "x/c.csv", "x/y/d.csv")
    ]


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.csv", ["a.csv"]),
        ("x/*", ["x/c.csv", "x/y/d.csv"]),
        ("*/c.csv", ["x/c.csv"]),
        ("{a,b}.*", ["a.csv", "b.txt"]),
        ("[!b].csv", ["a.csv"]),
        ("?/?/d.csv", ["x/y/d.csv"]),
        ("*/y/*.csv", ["x/y/d.csv"]),
        ("[a]*", ["a.csv"]),
        ("a.csv", ["a.csv"]),
        (r"\a.csv", ["a.csv"]),
    ],
)
def test_globs(tree, source_harness, glob, names):
    assert found(source_harness, tree / glob) == [str(tree / name) for name in names]


@pytest.mark.parametrize("path", ["nothing*", "missing", "a.csv/below", "x/*/*/*.csv", "{q,r}/a.csv"])
def test_a_batch_of_a_path_that_is_not_there_is_an_error(tree, source_harness, path):
    """No rows would look like an empty directory; it is most often a name that is not quite right."""
    with pytest.raises(BadConfigurationError, match="does not exist, or is a glob that matches nothing"):
        found(source_harness, tree / path)
    with pytest.raises(BadConfigurationError, match="does not exist, or is a glob that matches nothing"):
        source_harness.source(tree / path, format="csv").infer_schema()
    with pytest.raises(BadConfigurationError, match="does not exist"):
        found(source_harness, tree / "x", paths=json.dumps([str(tree / path)]))
    (tree / "empty").mkdir()
    assert found(source_harness, tree / "empty") == found(source_harness, tree / "empt*") == []
    assert found(source_harness, tree, pathGlobFilter="nothing*") == []


@pytest.mark.parametrize("path", ["nothing*", "missing"])
def test_a_stream_says_that_it_waits_for_a_path(tree, source_harness, caplog, path):
    def run(path, checkpoint=None):
        context = source_harness.context()
        enumerator = source_harness.source(path, format="text").create_enumerator(context, checkpoint)
        enumerator.start()
        for _ in range(2):  # listings: it is said once
            context.run_calls()
        enumerator.close()

    run(tree / path)
    assert caplog.text.count(f"{path} does not exist, or matches nothing yet: the query waits") == 1
    caplog.clear()
    run(tree)
    run(tree / path, FileSystemEnumeratorState())  # what was read may have been cleaned away
    assert "the query waits" not in caplog.text


@pytest.mark.parametrize("path", ["nothing*", "missing"])
def test_a_run_that_ends_by_itself_refuses_a_path_that_is_not_there(tree, source_harness, path):
    """Unless it has read from there before."""

    def run(checkpoint):
        source = source_harness.source(tree / path, format="text")
        enumerator = source.create_enumerator(source_harness.context(), checkpoint)
        try:
            enumerator.prepare_for_available_now()
        finally:
            enumerator.close()

    with pytest.raises(BadConfigurationError, match="does not exist, or is a glob that matches nothing"):
        run(None)
    run(FileSystemEnumeratorState())


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        ("a[b", "a '[' has no ']'"),
        ("a[!]", "a '[' has no ']'"),
        ("{a,b", "a '{' has no '}'"),
        ("a/{b,c/d}", "a '{' has no '}'"),
        ("a[z-a]", "bad character range"),
        ("a\\", "nothing follows its last backslash"),
    ],
)
def test_a_glob_that_is_not_complete_is_refused_before_anything_is_read(tree, source_harness, glob, says):
    with pytest.raises(BadConfigurationError, match=re.escape(says)):
        source_harness.source(tree / glob, format="text")
    if "/" not in glob:
        with pytest.raises(BadConfigurationError, match=re.escape(says)):
            found(source_harness, tree, pathGlobFilter=glob)


def test_links_to_a_directory_that_they_are_in_are_not_followed(tree, source_harness):
    (tree / "x" / "y" / "up").symlink_to(tree)
    (tree / "x" / "itself").symlink_to(tree / "x" / "itself")
    (tree / "x" / "nowhere").symlink_to(tree / "nowhere")
    (tree / "other").symlink_to(tree / "x" / "y")
    assert found(source_harness, tree) == [
        str(tree / n) for n in ("a.csv", "b.txt", "other/d.csv", "x/c.csv", "x/y/d.csv")
    ]


@pytest.mark.parametrize(
    ("name_glob", "modified"), [(None, None), ("*.csv", None), (None, ModifiedBetween(1_000_000, 3_000_000))]
)
@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("roots", [[""], ["x"], ["a.csv"], ["b.txt", "x"], ["*"], ["x/*", "{a,b}.*"], ["missing"]])
def test_a_store_is_listed_as_a_disk_is(tree, roots, recursive, name_glob, modified):
    """A disk is looked at directory by directory, a store in one recursive listing."""
    for number, path in enumerate(sorted(path for path in tree.rglob("*") if path.is_file())):
        os.utime(path, (1, number % 4))
    store = SimpleNamespace(fs=pafs.LocalFileSystem(), is_away=lambda _: False, check_is_there=lambda _: None)
    found = []
    for storage in (LocalStorage(), store):
        paths = [f"{tree}/{root}".rstrip("/") for root in roots]
        discovery = FileDiscovery(storage, paths, recursive=recursive, name_glob=name_glob, modified=modified)
        discovery.list_files()
        found.append((discovery.take(), discovery.missing_roots()))
    assert found[0] == found[1]
    assert found[0][1] == ([f"{tree}/missing"] if roots == ["missing"] else [])
    if recursive and name_glob is None and modified is None:
        assert bool(found[0][0]) == (roots != ["missing"])


def test_only_files_modified_between_two_times(tree, source_harness):
    """What was left out and is modified later is found then, and the same holds for one that a queue reports."""
    for name, second in (("a.csv", 10), ("b.txt", 11), ("x/c.csv", 12), ("x/y/d.csv", 13)):
        os.utime(tree / name, (1, second))
    at = "1970-01-01 01:00:%d"
    between = {"modifiedAfter": at % 10, "modifiedBefore": at % 13, "timeZone": "Europe/Berlin"}
    assert found(source_harness, tree, **between) == [str(tree / n) for n in ("b.txt", "x/c.csv")]
    assert found(source_harness, tree, modifiedAfter="1970-01-01T00:00:12Z") == [str(tree / "x/y/d.csv")]
    assert found(source_harness, tree / "a.csv", modifiedBefore="1970-01-01") == []
    with pytest.raises(BadConfigurationError, match=r"'modifiedAfter'.*a timestamp, as in 2026-01-31T12:00:00"):
        found(source_harness, tree, modifiedAfter="yesterday")
    discovery = FileDiscovery(LocalStorage(), [str(tree)], recursive=True, modified=ModifiedBetween(12_000_000))
    discovery.list_files()
    discovery.take()
    os.utime(tree / "a.csv", (1, 12))
    discovery.look_at([str(tree / "a.csv")])
    assert discovery.take() == []
    os.utime(tree / "a.csv", (1, 14))
    discovery.list_files()
    assert [file.path for file in discovery.take()] == [str(tree / "a.csv")]


def test_several_paths_count_a_file_once(tree, source_harness):
    paths = json.dumps([str(tree / "x"), str(tree / "a.csv")])
    assert found(source_harness, tree / "x" / "y", paths=paths) == [
        str(tree / n) for n in ("a.csv", "x/c.csv", "x/y/d.csv")
    ]
    with pytest.raises(BadConfigurationError, match="JSON list"):
        source_harness.source(tree, format="text", paths="a,b")


def test_globs_as_in_hadoop():
    assert glob_to_regex("{a,b{c,d}}-[a-c]").fullmatch("bd-b")
    assert not glob_to_regex("a.b").fullmatch("axb")
    assert {name for name in ("]x", "ax", "[]a]x", "x") if glob_to_regex("[]a]x").fullmatch(name)} == {"]x", "ax"}
    assert {name for name in ("*", "a", "\\*") if glob_to_regex(r"\*").fullmatch(name)} == {"*"}
    assert {name for name in ("]", "a", "\\", "-") if glob_to_regex(r"[\]a\-]").fullmatch(name)} == {"]", "a", "-"}
    assert {name for name in ("a", "b", "^", "[") if glob_to_regex("[a^[]").fullmatch(name)} == {"a", "^", "["}
    assert glob_to_regex("a}b,c").fullmatch("a}b,c")


def test_an_unchanged_directory_is_not_listed_again(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("1")
    discovery = FileDiscovery(LocalStorage(), [str(tmp_path)], recursive=True, name_glob=None)
    discovery.list_files()
    assert len(discovery.take()) == 1
    (tmp_path / "b").write_text("1")
    discovery.list_files()  # written to a moment ago: its time may not have moved
    assert [file.path for file in discovery.take()] == [str(tmp_path / "b")]
    os.utime(tmp_path, (1, 1))
    discovery.list_files()
    listings = []
    original = FileDiscovery._list_directory

    def counting(self, path, mtime_ns):
        before = self._listed[path]
        after = original(self, path, mtime_ns)
        listings.append(after is not before)
        return after

    monkeypatch.setattr(FileDiscovery, "_list_directory", counting)
    discovery.list_files()
    assert listings == [False]
    (tmp_path / "c").write_text("1")
    discovery.list_files()
    assert listings == [False, True] and [file.path[-1] for file in discovery.take()] == ["c"]


def test_a_removed_directory_and_a_name_that_is_not_utf8(tmp_path, caplog):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("1")
    with open(os.fsencode(tmp_path) + b"/\xff", "w") as file:
        file.write("1")
    discovery = FileDiscovery(LocalStorage(), [str(tmp_path)], recursive=True, name_glob=None)
    discovery.list_files()
    assert [file.path for file in discovery.take()] == [str(tmp_path / "sub" / "a")]
    by_glob = FileDiscovery(LocalStorage(), [f"{tmp_path}/*"], recursive=True, name_glob=None)
    by_glob.list_files()
    assert [file.path for file in by_glob.take()] == [str(tmp_path / "sub" / "a")]
    (tmp_path / "sub" / "a").unlink()
    (tmp_path / "sub").rmdir()
    discovery.list_files()
    assert discovery.take() == []
    warning = f"{tmp_path} holds names that are not UTF-8, which are not read: rename them"
    assert [text for text in caplog.messages if "UTF-8" in text] == [warning] * 2, "once for each query"


def test_paths_that_are_nested_too_deeply_are_no_list_of_texts(tree, source_harness):
    with pytest.raises(BadConfigurationError, match="write a JSON list of texts"):
        found(source_harness, tree, paths="[" * 100_000)


def test_planning_does_not_depend_on_the_files_that_are_there(tmp_path, source_harness, calls_made):
    """Finding twice as many files takes about twice the work; handing out as many of them, the same."""

    def work(files):
        folder = tmp_path / str(files)
        folder.mkdir()
        for i in range(files):
            os.close(os.open(folder / f"f{i:05}", os.O_CREAT))
        source = source_harness.source(folder, format="text", maxFilesPerTrigger=500)
        enumerator = source.create_enumerator(source_harness.context(), None)

        def plan():
            assert len(source_harness.batch(enumerator, source.read_limits())) == 500
            enumerator.snapshot_state()

        finding = calls_made(enumerator.prepare_for_available_now)
        plan()
        return finding, calls_made(plan)

    (finding, planning), (finding_twice, planning_of_twice) = work(2_000), work(4_000)
    assert finding_twice < 2.2 * finding
    assert planning_of_twice == pytest.approx(planning, rel=0.1)


@pytest.mark.parametrize("glob", ["", "/*.txt"])
def test_what_is_away_is_not_removed(tmp_path, glob):
    """A mount that comes and goes: its files would be read again if they were forgotten."""
    folder = tmp_path / "mount"
    folder.mkdir()
    (folder / "a.txt").write_text("1")
    discovery = FileDiscovery(LocalStorage(), [f"{folder}{glob}"], recursive=True, name_glob=None)
    discovery.list_files()
    assert [file.path for file in discovery.take()] == [f"{folder}/a.txt"]
    with away(folder), pytest.raises(OSError, match="mount"):
        discovery.list_files()
    discovery.list_files()
    assert discovery.take() == []
    assert discovery.take_removed() == []


@pytest.mark.parametrize("in_its_place", [None, "file"])
def test_an_outage_between_any_two_calls_of_a_listing(tmp_path, monkeypatch, in_its_place):
    """Neither is a file removed that is only away, nor is what is in the place of the directory a file of it."""
    folder, aside = tmp_path / "mount", tmp_path / "aside"
    (folder / "x").mkdir(parents=True)
    (folder / "a.txt").write_text("1")
    (folder / "x" / "b.txt").write_text("1")
    old = time.time() - 60
    names = {f"{folder}/a.txt", f"{folder}/x/b.txt"}
    real_stat, calls, outage = os.stat, 0, range(0)

    def leave():
        folder.rename(aside)
        if in_its_place:
            folder.touch()

    def come_back():
        folder.unlink(missing_ok=True)
        aside.rename(folder)

    def stat(path, *args, **kwargs):
        nonlocal calls
        if str(path).startswith(str(folder)):
            number, calls = calls, calls + 1
            monkeypatch.setattr(os, "stat", real_stat)
            if number == outage.start and outage:
                leave()
            if number == outage.stop and outage:
                come_back()
            monkeypatch.setattr(os, "stat", stat)
        return real_stat(path, *args, **kwargs)

    def list_with(*planned):
        nonlocal calls, outage
        calls, outage = 0, range(*planned)
        os.utime(folder, (old, old))  # not listed lately: it is listed again
        discovery.list_files()

    outages = 0
    for first in range(20):
        for end in range(first + 1, 20):
            discovery = FileDiscovery(LocalStorage(), [str(folder)], recursive=True, name_glob=None)
            discovery.list_files()
            assert {file.path for file in discovery.take()} == names
            monkeypatch.setattr(os, "stat", stat)
            try:
                list_with(first, end)
            except OSError:
                pass
            finally:
                monkeypatch.setattr(os, "stat", real_stat)
            if calls <= first:
                break
            if aside.exists():
                come_back()
            outages += 1
            assert {file.path for file in discovery.take()} <= names, (first, end)
            if calls <= end:
                assert discovery.take_removed() == [], (first, end)
    assert outages > 5


def test_a_directory_on_another_file_system_is_not_the_one_that_was_there(tmp_path):
    (tmp_path / "a.txt").write_text("1")
    discovery = FileDiscovery(LocalStorage(), [str(tmp_path)], recursive=True, name_glob=None)
    discovery.list_files()
    discovery._devices[str(tmp_path)] += 1  # as when the mount is gone, and what is below it shows
    with pytest.raises(OSError, match="is it mounted"):
        discovery.list_files()
    assert discovery.take_removed() == []


def test_a_directory_that_comes_later_is_found(tmp_path):
    folder = tmp_path / "later"
    discovery = FileDiscovery(LocalStorage(), [str(folder)], recursive=True, name_glob=None)
    discovery.list_files()
    folder.mkdir()
    (folder / "a.txt").write_text("1")
    discovery.list_files()
    assert [file.path for file in discovery.take()] == [f"{folder}/a.txt"]


def test_a_directory_of_a_store_that_was_there_is_not_empty_when_it_is_away(tmp_path):
    """Its files would count as removed, and be read again when it is back."""
    gone = set()

    class Store(MemoryStorage):
        fs = pafs.LocalFileSystem()

        def is_away(self, directory):
            return directory in gone

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a")
    roots = [f"{tmp_path}/in", f"{tmp_path}/not there yet"]
    gone.add(roots[1])
    discovery = FileDiscovery(Store(), roots, recursive=True, name_glob=None)
    discovery.list_files()
    assert len(discovery.take()) == 1
    gone.add(roots[0])
    with pytest.raises(RetriableError, match="in is not there"):
        discovery.list_files()
    assert discovery.take_removed() == []
    gone.clear()
    discovery.list_files()
    assert discovery.take() == [] and discovery.take_removed() == []


@pytest.fixture
def slow_listing(tree, monkeypatch):
    """An event that lets listings of the tree end, which wait for it; and how many have begun."""
    goes_on, begun = threading.Event(), []
    listed = FileDiscovery._list_all

    def slow(self, found):
        if any(root.startswith(str(tree)) for root in self._roots):
            begun.append(1)
            assert goes_on.wait(60)
        return listed(self, found)

    monkeypatch.setattr(FileDiscovery, "_list_all", slow)
    return SimpleNamespace(end=goes_on.set, hold=goes_on.clear, begun=begun)


def test_a_trigger_does_not_wait_for_a_long_first_listing(tree, source_harness, slow_listing):
    """The query may have other sources. It waits a little, as a small directory would else be an empty batch first."""
    waits = []

    class Context(Coordinator):
        def await_handlers(self, until, timeout_ms):
            waits.append(timeout_ms)
            return super().await_handlers(until, 0 if not slow_listing.done else 60_000)

    slow_listing.done = False
    source = source_harness.source(tree, format="text")
    enumerator = source.create_enumerator(Context(Metrics()), None)
    enumerator.start()
    assert [enumerator.handle_split_request() for _ in range(3)] == [None, None, None]
    assert waits == [5_000, 0, 0] and not enumerator.is_exhausted()
    slow_listing.done = True
    slow_listing.end()
    assert enumerator.handle_split_request().path == str(tree / "a.csv")
    assert waits[3:] == [0]


def test_a_trigger_does_not_wait_for_a_later_listing(tree, slow_listing):
    """It takes what earlier ones have found."""
    discovery = FileDiscovery(LocalStorage(), [str(tree), f"{tree}/missing"], recursive=True, name_glob=None)
    listings = [threading.Thread(target=discovery.list_files) for _ in range(2)]
    listings[0].start()
    slow_listing.end()
    listings[0].join()
    slow_listing.hold()
    listings[1].start()
    while len(slow_listing.begun) < 2:
        time.sleep(0.001)
    assert len(discovery.take()) == 4 and discovery.take_removed() == []
    assert discovery.missing_roots() == [f"{tree}/missing"] and listings[1].is_alive()
    slow_listing.end()
    listings[1].join()


@given(st.lists(st.sampled_from(["a", "b", "list", "take"]), max_size=12), st.integers(0, 3))
def test_files_that_come_and_go_between_listings(tmp_path_factory, steps, between):
    """Whatever happens before the enumerator looks, or between its two looks: in the end it has what is there."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "sub").mkdir()  # so that no listing is spared
    discovery = FileDiscovery(LocalStorage(), [str(folder)], recursive=True, name_glob=None)
    known = {}

    def do(step):
        if step == "list":
            discovery.list_files()
        elif (folder / step).exists():
            (folder / step).unlink()
        else:
            (folder / step).write_text("1" * len(known))

    def take(steps):
        found = discovery.take()
        for step in steps:
            do(step)
        removed = discovery.take_removed()
        known.update({file.path: file.size for file in found})
        for path in removed:
            known.pop(path, None)

    for number, step in enumerate(steps):
        if step == "take":
            take(one for one in steps[number + 1 : number + 1 + between] if one != "take")
        else:
            do(step)
    discovery.list_files()
    take([])
    assert known == {str(path): path.stat().st_size for path in folder.iterdir() if path.is_file()}


def test_a_run_over_what_is_there_now_lists_it_once(tree, source_harness, slow_listing):
    coordinator = Coordinator(Metrics())
    enumerator = source_harness.source(tree, format="text").create_enumerator(coordinator, None)
    enumerator.start()
    while not slow_listing.begun:
        time.sleep(0.001)
    threading.Timer(0.2, slow_listing.end).start()
    enumerator.prepare_for_available_now()
    assert enumerator.handle_split_request().path == str(tree / "a.csv")
    assert len(slow_listing.begun) == 1
    (tree / "new").write_text("1")
    enumerator.prepare_for_available_now()  # asked for again, it is listed again
    assert len(slow_listing.begun) == 2
    coordinator.close()


def test_the_first_listing_says_how_far_it_is(tree, monkeypatch, caplog):
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN_LINES", 0.01)
    line, listed = "takes long: 0 s, and 4 files so far", FileDiscovery._list_all

    def slow(self, found):
        missing = listed(self, found)
        deadline = time.monotonic() + 60
        while line not in caplog.text and not self._known and time.monotonic() < deadline:
            time.sleep(0.01)
        return missing

    monkeypatch.setattr(FileDiscovery, "_list_all", slow)
    discovery = FileDiscovery(LocalStorage(), [str(tree)], recursive=True, name_glob=None)
    discovery.list_files()
    assert f"listing {tree} {line}" in caplog.text
    caplog.clear()
    discovery.list_files()
    assert not caplog.text
