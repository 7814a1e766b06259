"""A committed chunk that somebody deleted is said to be lost, before anything is decided about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import DataLostError
from penstock_filesystem.sink import _rolling


@pytest.mark.parametrize("batches", [1, 3])
def test_deleted_chunk_is_reported(sink_query, numbers, tmp_path, batches):
    query = sink_query(tmp_path / "out", numbers([1]).schema, tasks=1, bucketAssigner="basePath")
    for number in range(batches):
        query.run([numbers([number])])
    next((tmp_path / "out" / ".penstock").rglob("*.chunk")).unlink()
    with pytest.raises(DataLostError, match="committed rows of an open part is gone"):
        query.roll(finish=True)


def test_large_chunks_are_published_as_they_are(sink_query, numbers, tmp_path, visible, monkeypatch):
    """At the end small chunks become one part, large ones are not rewritten."""
    query = sink_query(tmp_path / "out", numbers([1]).schema, tasks=1, bucketAssigner="basePath", format="csv")
    for first in (0, 1000, 2000, 3000):
        query.run([numbers(range(first, first + (500 if first % 2000 else 2)), width=50)])
    monkeypatch.setattr(_rolling, "LARGE_CHUNK_BYTES", 20_000)
    query.finish()
    lines = sorted(len(Path(path).read_text().splitlines()) for path in visible(tmp_path / "out"))
    assert lines == [4, 500, 500]
