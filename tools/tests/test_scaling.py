"""``scripts/bench scaling``, in small: the driver asks about many parts at once, at each of its steps."""

from __future__ import annotations

from contextlib import contextmanager

from benchmarks import scaling
from benchmarks.measuring import as_rows


def test_the_driver_makes_requests_to_a_store_at_once(tmp_path, monkeypatch):
    """The plan, the commit, the abort: 100 parts, and an answer takes 20 ms."""
    monkeypatch.setattr(scaling, "S3_REQUEST_S", 0.02)
    most, driver = [], scaling.S3Target.driver

    @contextmanager
    def counting(target):
        target.model.most_at_once = 0
        with driver(target):
            yield
        most.append(target.model.most_at_once)

    monkeypatch.setattr(scaling.S3Target, "driver", counting)
    with scaling.s3(tmp_path) as target:
        found = target.measure(100, tmp_path / "checkpoint")
    assert list(found.seconds) == ["plan", "commit", "abort"]
    assert most[1] > 16 and most[2] > 16, most


def test_a_number_of_tasks_on_a_disk(tmp_path):
    with scaling.files(tmp_path) as target:
        found = target.measure(20, tmp_path / "checkpoint")
    header, _, row = as_rows(scaling.measurements("files", found)).splitlines()
    assert row.startswith("| files, local disk | 20 | 0.") and header.count("|") == row.count("|")
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 21, "those of the batch that was given up are gone"
