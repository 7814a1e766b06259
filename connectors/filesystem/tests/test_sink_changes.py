"""Change files: rows are kept as they are, and what is no change is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock.errors import BadConfigurationError, BadDataError

SCHEMA = pa.schema([("op", pa.string()), ("id", pa.int64()), ("lsn", pa.int64())])
OPTIONS = {"bucketAssigner": "basePath", "keyColumns": "id", "operationColumn": "op", "orderColumn": "lsn"}


def rows(*values):
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in values], SCHEMA)


def test_files_keep_every_change(sink_query, tmp_path):
    one = sink_query(tmp_path, SCHEMA, rollOnCheckpoint="true", **OPTIONS)
    changes = rows(("c", 1, 10), ("d", 1, 20), ("r", 2, 20), ("u", 2, 30))
    one.commit(one.decide([one.write([changes])]))
    assert ds.dataset(tmp_path, format="parquet").to_table().to_pylist() == changes.to_pylist()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("t", 1, 10), "column 'op': 't' says that the table was truncated"),
        (("u", None, 10), "key column 'id' is null in row 1"),
        (("u", 1, None), "order column 'lsn' is null in row 1"),
    ],
)
def test_what_is_no_change(sink_query, tmp_path, row, message):
    with pytest.raises(BadDataError, match=message):
        sink_query(tmp_path, SCHEMA, **OPTIONS).write([rows(("c", 1, 10), row)])


@pytest.mark.parametrize("option", ["keyColumns", "operationColumn", "orderColumn", "unavailableColumn"])
def test_columns_that_are_not_there(sink_query, tmp_path, option):
    with pytest.raises(BadConfigurationError, match=f"option '{option}': the rows have no column 'other'"):
        sink_query(tmp_path, SCHEMA, **{**OPTIONS, option: "other"})
