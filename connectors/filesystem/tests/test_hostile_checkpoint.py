"""A checkpoint that somebody else has changed: what it names is below the sink's path, or is left alone."""

from __future__ import annotations

import pytest

from penstock.errors import FatalError
from penstock.metrics import Metrics
from penstock.sink import Kept
from penstock.storage import LocalStorage
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._rename import RenameCommitter
from penstock_filesystem.source._cleaner import FileCleaner
from penstock_filesystem.source._split import FileSplit
from penstock_filesystem.source.tracking._run_store import RunStore

OUTSIDE = ["../victim", ".penstock/q/5/../../../../victim", "{root}/../victim", "/{root}/../victim"]


@pytest.fixture
def victim(tmp_path):
    """A file next to the sink's path and the source's: ``target`` and ``in``."""
    (tmp_path / "target" / ".penstock" / "q" / "5").mkdir(parents=True)
    (tmp_path / "in").mkdir()
    (tmp_path / "victim").write_bytes(b"abc")
    return tmp_path / "victim"


def committer(tmp_path, query="q"):
    return RenameCommitter(Layout(LocalStorage(), str(tmp_path / "target"), "part", ""), query, Metrics())


@pytest.mark.parametrize("method", ["look", "publish", "seal", "discard"])
@pytest.mark.parametrize("field", ["hidden", "final"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_parts_are_below_the_path(tmp_path, victim, method, field, name):
    fields = {"hidden": ".penstock/q/5/a", "final": "a"} | {field: name.format(root=tmp_path / "target")}
    part = PendingPart("rename", fields["final"], 3, 1, hidden=fields["hidden"])
    (tmp_path / "target" / ".penstock" / "q" / "5" / "a").write_bytes(b"abc")
    reached = {"seal": ("hidden",), "discard": ("hidden",), "look": ("hidden",)}.get(method, ("hidden", "final"))
    given = ([part], []) if method == "discard" else ([part],)
    if field in reached:
        with pytest.raises(FatalError, match="is not below"):
            getattr(committer(tmp_path), method)(*given)
    else:
        getattr(committer(tmp_path), method)(*given)
    assert victim.read_bytes() == b"abc"


@pytest.mark.parametrize("name", OUTSIDE)
def test_chunks_are_below_the_path(tmp_path, victim, name):
    chunk = Chunk("", name.format(root=tmp_path / "target"), 3, 1, "json", ".json", "", 0, 0, 0)
    with pytest.raises(FatalError, match="is not below"):
        committer(tmp_path).discard([], [chunk])
    assert victim.exists()


@pytest.mark.parametrize("query", [".", ".."])
def test_a_query_has_a_directory_of_its_own(tmp_path, victim, query):
    """With such an id the files of every query would be this one's garbage."""
    other = tmp_path / "target" / ".penstock" / "q" / "5" / "a.chunk"
    other.write_bytes(b"another query's")
    with pytest.raises(FatalError, match="is not below"):
        committer(tmp_path, query).clear(Kept(base=9, generation=0))
    assert other.exists()


def test_what_was_read_is_next_to_the_checkpoint(tmp_path, victim):
    with pytest.raises(FatalError, match="is not below"):
        RunStore(LocalStorage(), str(tmp_path / "in")).read("../victim", 1)


@pytest.mark.parametrize("archive", [None, "archive"])
@pytest.mark.parametrize("path", ["victim", "in/../victim"])
def test_only_what_is_below_the_paths_is_cleaned(tmp_path, victim, archive, path, caplog):
    inside = tmp_path / "in" / "a"
    inside.write_bytes(b"abc")
    archive = archive and str(tmp_path / archive)
    cleaner = FileCleaner(LocalStorage(), [f"{tmp_path}/in/*"], archive, Metrics())
    size_and_time = {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in (victim, inside)}
    of_victim = FileSplit(str(tmp_path / path), *size_and_time[victim], 0, 3)
    cleaner.clean([of_victim, FileSplit(str(inside), *size_and_time[inside], 0, 3)])
    cleaner.close()
    assert victim.exists() and not inside.exists()
    assert "is not below the paths that are read" in caplog.text
