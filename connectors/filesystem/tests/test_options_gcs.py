"""Source and sink go where the options gcs.* say, and ask as they say."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import RetriableError
from suite.gcs import service_account_key

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


def test_a_sink_and_a_source(gcs_server, sink_query, source_harness, numbers):
    url = f"{gcs_server.url(gcs_server.new_bucket())}/out"
    options = {**gcs_server.options(), "format": "json"}
    query = sink_query(url, SCHEMA, bucketAssigner="basePath", tasks=1, rollOnCheckpoint=True, **options)
    query.run([numbers(range(10))])
    given = {name.replace(".", "_", 1): text for name, text in options.items()}
    rows = source_harness.rows(url, [("id", pa.int64())], **given)
    assert sorted(rows) == [(number,) for number in range(10)]


def test_who_asks(sink_query, source_harness, monkeypatch):
    """A token is asked for where the key says, which is nowhere here."""
    monkeypatch.setattr("penstock.storage._gcs_client._TRIES", 1)
    given = service_account_key("http://127.0.0.1:1/token")
    options = {"gcs.endpoint": "https://127.0.0.1:1", "gcs.credentials": given, "format": "json"}
    query = sink_query("gs://in/out", SCHEMA, **options)
    source = source_harness.source("gs://in/out", **{name.replace(".", "_", 1): text for name, text in options.items()})
    for ask in (query.clean_up, lambda: source_harness.splits(source)):
        with pytest.raises(RetriableError, match=r"gs://in/out.*/token"):
            ask()
