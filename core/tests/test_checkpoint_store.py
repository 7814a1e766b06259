"""What a checkpoint rests on: a store that creates a file only if it is absent, and Spark's own log of its batches."""

from __future__ import annotations

import pytest

from penstock._commit import Batch
from penstock.checkpoint import SparkLog
from penstock.checkpoint._identity import open_identity
from penstock.errors import BadConfigurationError
from penstock.storage import MemoryStorage


class Overwrites(MemoryStorage):
    """Takes the second of two creations as well."""

    def create(self, path, data):
        self.put(path, data)
        return True


class OverwritesAndDenies(MemoryStorage):
    """Says that it has refused the second of two creations, and has overwritten the first one."""

    def create(self, path, data):
        was_there = self.size(path) is not None
        self.put(path, data)
        return not was_there


@pytest.mark.parametrize("store", [Overwrites, OverwritesAndDenies])
def test_a_store_that_overwrites_what_is_to_be_created_is_refused(store):
    storage = store()
    with pytest.raises(BadConfigurationError, match="so that two drivers could decide the same batch"):
        open_identity(storage, "/ck", "a query")
    assert storage.files == {}  # neither a trial nor a checkpoint is left


def test_a_store_is_tried_out_once():
    class Counts(MemoryStorage):
        created = 0

        def create(self, path, data):
            self.created += 1
            return super().create(path, data)

    storage = Counts()
    made = open_identity(storage, "/ck", "a query")
    assert storage.created == 3 and list(storage.files) == ["/ck/penstock/place.json"]
    assert open_identity(storage, "/ck", "a query") == made and storage.created == 3


@pytest.mark.parametrize("expected", [None, 3])
@pytest.mark.parametrize("names", [[], ["offsets/.3.tmp", "commits/2"]])
def test_a_query_whose_batches_spark_does_not_write_down_is_refused(expected, names):
    storage = MemoryStorage()
    for name in names:
        storage.put(f"/ck/{name}", b"v1")
    with pytest.raises(BadConfigurationError, match="turn asynchronous progress tracking off"):
        SparkLog(storage, "/ck").planned(expected)
    storage.put("/ck/offsets/2", b"v1 2")
    assert SparkLog(storage, "/ck").planned(expected) == Batch(2, b"v1 2")
