"""A bad network between us and S3: answers that are lost, and connections that are slow, cut or dead."""

from __future__ import annotations

import gzip
import io
import json
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.checkpoint import open_identity
from penstock.errors import RetriableError
from penstock.sink import Kept
from penstock.storage import S3Storage
from penstock_filesystem import FileSystemConnector
from suite.bad_network import BadNetwork, renamed_addresses
from suite.frames import HttpFrames
from suite.over_network import FAULTS, every, sink_query, source_query

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
MORE_THAN_CLIENTS_TRY = 7
#: Every request of a query that writes, with its checkpoint on S3 too.
ASKED = {
    "a decision": r"PUT .*/decisions/.*json",
    "the note that it is done": r"PUT .*/decisions/.*done",
    "the list of decisions": r"GET .*decisions",
    "the offsets": r"GET .*/offsets/",
    "a chunk": r"PUT .*\.chunk",
    "a marker": r"PUT .*\.upload",
    "a look at a marker": r"HEAD .*\.upload",
    "the beginning of an upload": r"POST .*\?uploads",
    "a part": r"PUT .*partNumber=",
    "the list of uploads": r"GET .*\?.*uploads",
    "the end of an upload": r"POST .*\?uploadId=",
    "a removal": r"POST .*\?delete",
}


@dataclass
class Bucket:
    """A bucket behind a bad network, and a client past it."""

    name: str
    client: Any
    network: BadNetwork

    @property
    def options(self):
        return {
            "s3.endpoint": f"http://{self.network.address}",
            "s3.key": "testing",
            "s3.secret": "testing",
            "s3.region": "us-east-1",
        }

    @property
    def storage(self):
        return S3Storage({name.removeprefix("s3."): value for name, value in self.options.items()})

    def keys(self, prefix="out"):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def ids(self):
        found = Counter()
        for key in self.keys():
            if "/.penstock/" not in key:
                body = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
                found.update(json.loads(line)["id"] for line in io.BytesIO(body))
        return found

    def left(self):
        """What is hidden."""
        uploads = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return [key for key in self.keys() if "/.penstock/" in key] + [one["Key"] for one in uploads]


@pytest.fixture
def bucket(s3_server):
    name = f"b{uuid.uuid4().hex[:12]}"
    s3_server.client.create_bucket(Bucket=name)
    with BadNetwork(s3_server.endpoint.removeprefix("http://"), HttpFrames) as network:
        yield Bucket(name, s3_server.client, network)


def rows(batch_id, writer, count=50):
    ids = [batch_id * 1000 + writer * 100 + i for i in range(count)]
    return pa.record_batch([ids, ["x" * 40] * count], schema=SCHEMA)


BATCHES = [[[rows(number, 0)], [rows(number, 1)]] for number in range(4)]


def ids_of(batches):
    return Counter(i for shares in batches for share in shares for part in share for i in part[0].to_pylist())


def writing(bucket, endpoint="", **more):
    options = {
        **bucket.options,
        "path": f"s3://{bucket.name}/out",
        "format": "json",
        "bucketAssigner": "basePath",
        "maxPartSize": "5kb",
        **more,
    }
    if endpoint:
        options["s3.endpoint"] = endpoint
    store = S3Storage({name.removeprefix("s3."): text for name, text in options.items() if name.startswith("s3.")})
    return sink_query(FileSystemConnector(), options, SCHEMA, Path(bucket.name) / "checkpoint", store)


@pytest.mark.parametrize(
    ("kind", "times", "keep"),
    every(
        list(ASKED),
        (1, MORE_THAN_CLIENTS_TRY),
        (0.0, 0.1, 0.5, 0.99),
        witnesses=[("the end of an upload", 1, 0.0), ("the list of uploads", 1, 0.1)],
        otherwise="every request, lost and cut; the end of an upload is the witness",
    ),
)
def test_an_answer_is_lost(bucket, kind, times, keep):
    loss = bucket.network.lose(ASKED[kind], times=times, keep=keep)
    query = writing(bucket)
    query.run_all(BATCHES)
    bucket.network.mend()
    assert loss.lost
    assert bucket.ids() == ids_of(BATCHES)
    query.finish()
    with query.committer() as committer:
        committer.clear(Kept(1 << 30, generation=1 << 30))
    assert not bucket.left()


def test_a_name_that_leads_to_another_address(bucket):
    """Nothing reaches the store at the first one any more."""
    port = bucket.network.port
    with (
        BadNetwork(bucket.network.target, HttpFrames, host="127.0.0.2", port=port) as another,
        renamed_addresses({"store": "127.0.0.1"}) as addresses,
    ):
        query = writing(bucket, f"http://store:{port}", rollOnCheckpoint="true")
        query.run(0, BATCHES[0])
        assert not another.counts
        addresses["store"] = "127.0.0.2"
        bucket.network.hold("to server")
        bucket.network.reset()
        query.run_all(BATCHES)
        assert another.counts["connections"]
    bucket.network.mend()
    assert bucket.ids() == ids_of(BATCHES)


@pytest.mark.parametrize("kind", ["PUT .*/trial", "GET .*/trial", "PUT .*place.json", "POST .*delete"])
def test_an_answer_is_lost_when_a_checkpoint_begins(bucket, kind):
    loss = bucket.network.lose(kind)
    made = open_identity(bucket.storage, f"{bucket.name}/checkpoint", "q")
    assert loss.lost
    assert open_identity(bucket.storage, f"{bucket.name}/checkpoint", "q") == made


@pytest.mark.parametrize(
    "fault",
    every(list(FAULTS), witnesses=[], otherwise="up to two minutes each; lost answers are the witness"),
)
def test_a_query_writes_through(bucket, fault):
    query = writing(bucket)
    query.run(0, BATCHES[0])
    with FAULTS[fault](bucket.network):
        query.run_all(BATCHES[:2])
    bucket.network.mend()
    assert bucket.ids() == ids_of(BATCHES[:2])


def file_of(kind, number):
    """A name, which has a word that also stands in errors about broken files, and bytes."""
    ids = range(number * 100, number * 100 + 100)
    table = pa.table({"id": list(ids), "text": ["x" * 40] * 100})
    if kind == "parquet":
        out = io.BytesIO()
        pq.write_table(table, out)
        return f"compressed/{number}.parquet", out.getvalue()
    lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    return (f"compressed/{number}.json.gz", gzip.compress(lines)) if kind == "json.gz" else (f"{number}.json", lines)


@pytest.mark.parametrize(
    ("fault", "kind"),
    every(
        list(FAULTS),
        ("json", "json.gz", "parquet"),
        witnesses=[],
        otherwise="ten seconds to two minutes each; test_source_formats.py has what is said of a file then",
    ),
)
def test_a_query_reads_through(bucket, fault, kind):
    """Bytes that do not arrive make no file corrupt, which would be skipped here."""
    for number in range(20):
        name, data = file_of(kind, number)
        bucket.client.put_object(Bucket=bucket.name, Key=f"in/{name}", Body=data)
    options = {**bucket.options, "path": f"s3://{bucket.name}/in", "format": kind.removesuffix(".gz")}
    options |= {"maxFilesPerTrigger": "5", "ignoreCorruptFiles": "true"}
    query = source_query(FileSystemConnector(), options, SCHEMA)
    found = [row["id"] for row in query.run_batch()]
    with FAULTS[fault](bucket.network):
        while some := query.run_batch():
            found += [row["id"] for row in some]
    query.stop()
    assert sorted(found) == list(range(2000))


@pytest.mark.exhaustive("Arrow tries for ten seconds; test_source_formats.py has what it says then")
@pytest.mark.parametrize("kind", ["json.gz", "parquet"])
def test_a_store_that_is_away_breaks_no_file(bucket, kind):
    name, data = file_of(kind, 1)
    bucket.client.put_object(Bucket=bucket.name, Key=f"in/{name}", Body=data)
    options = {**bucket.options, "path": f"s3://{bucket.name}/in", "format": kind.removesuffix(".gz")}
    options |= {"ignoreCorruptFiles": "true", "retryTimeout": "0s"}
    query = source_query(FileSystemConnector(), options, SCHEMA)
    batch = query.plan()
    bucket.network.target = "127.0.0.1:1"
    bucket.network.reset()
    with pytest.raises(RetriableError, match=name):
        query.read(batch)
    query.stop()
