"""A bad network between us and Google's store: answers that are lost, and connections that are slow, cut or dead."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.checkpoint import open_identity
from penstock.sink import Kept
from penstock.storage import GcsStorage, open_storage
from penstock_filesystem import FileSystemConnector
from suite.bad_network import BadNetwork
from suite.frames import HttpFrames
from suite.gcs import GcsServer
from suite.over_network import FAULTS, every, sink_query, source_query

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
MORE_THAN_CLIENTS_TRY = 7
#: Every request of a query that writes, with its checkpoint there too. The name of an upload is not in its address.
ASKED = {
    "a decision, or what is staged": r"POST /upload/.*ifGenerationMatch=0",
    "a witness, or a note": r"POST /upload/(?!.*ifGenerationMatch)",
    "a move": r"POST .*/moveTo/",
    "a look": r"GET /storage/v1/b/\w+/o/.",
    "a list": r"GET /storage/v1/b/\w+/o\?",
    "a download": r"GET /download/",
    "a removal": r"DELETE ",
}


@dataclass
class Behind:
    """A bucket behind a bad network."""

    name: str
    server: GcsServer
    network: BadNetwork

    @property
    def options(self):
        return {**self.server.options(), "gcs.endpoint": f"http://{self.network.address}"}

    @property
    def url(self):
        return self.server.url(self.name)

    @property
    def storage(self):
        storage, _ = open_storage(self.url, self.options)
        return storage

    def names(self, *, hidden=False):
        found = self.server.storage().list_tree(f"{self.name}/out")
        return [path for path in found if ("/.penstock/" in path) == hidden]

    def ids(self):
        lines = [line for path in self.names() for line in self.server.storage().read(path).splitlines()]
        return Counter(json.loads(line)["id"] for line in lines)


@pytest.fixture
def bucket(gcs_server, monkeypatch):
    monkeypatch.setattr("penstock.storage._gcs_client._FIRST_PAUSE_S", 0.02)
    with BadNetwork(gcs_server.endpoint.split("/")[2], HttpFrames) as network:
        yield Behind(gcs_server.new_bucket(), gcs_server, network)


def rows(batch_id, writer, count=50):
    ids = [batch_id * 1000 + writer * 100 + i for i in range(count)]
    return pa.record_batch([ids, ["x" * 40] * count], schema=SCHEMA)


BATCHES = [[[rows(number, 0)], [rows(number, 1)]] for number in range(4)]


def ids_of(batches):
    return Counter(i for shares in batches for share in shares for part in share for i in part[0].to_pylist())


def writing(bucket):
    options = {
        **bucket.options,
        "path": f"{bucket.url}/out",
        "format": "json",
        "bucketAssigner": "basePath",
        "maxPartSize": "5kb",
    }
    return sink_query(FileSystemConnector(), options, SCHEMA, f"{bucket.name}/checkpoint", bucket.storage)


@pytest.mark.parametrize(
    ("kind", "times", "keep"),
    every(
        list(ASKED),
        (1, MORE_THAN_CLIENTS_TRY),
        (0.0, 0.1, 0.5, 0.99),
        witnesses=[
            ("a move", 1, 0.0),
            ("a decision, or what is staged", 1, 0.0),
            ("a look", 1, 0.5),
            ("a download", 1, 0.99),
        ],
        otherwise="every request, lost and cut; the move is the witness",
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
    assert not bucket.names(hidden=True)


@pytest.mark.parametrize("kind", ["POST /upload/.*", "GET .*trial", "DELETE .*"])
def test_an_answer_is_lost_when_a_checkpoint_begins(bucket, kind):
    loss = bucket.network.lose(kind)
    made = open_identity(bucket.storage, f"{bucket.name}/checkpoint", "q")
    assert loss.lost
    assert open_identity(bucket.storage, f"{bucket.name}/checkpoint", "q") == made


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("call", ["size", "list_names", "list_tree", "generation", "read"])
def test_an_answer_that_is_cut_is_asked_for_again(bucket, call, keep):
    """None of it counts for nothing: no list without entries, no object that is not there."""
    path = f"{bucket.name}/d/x"
    bucket.server.storage().put(path, b"1234")
    asked = f"{bucket.name}/d" if call.startswith("list") else path
    loss = bucket.network.lose(".*", keep=keep)
    found = getattr(GcsStorage, call)(bucket.storage, asked)
    assert loss.lost
    expected = {"size": 4, "list_names": ["x"], "list_tree": [path], "read": b"1234"}
    expected["generation"] = bucket.server.storage().generation(path)
    assert found == expected[call]


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


@pytest.mark.parametrize(
    ("fault", "kind"),
    every(list(FAULTS), ("json", "parquet"), witnesses=[], otherwise="ten seconds to two minutes each"),
)
def test_a_query_reads_through(bucket, fault, kind):
    """Bytes that do not arrive make no file corrupt, which would be skipped here."""
    for number in range(20):
        table = pa.table({"id": list(range(number * 100, number * 100 + 100)), "text": ["x" * 40] * 100})
        out = io.BytesIO()
        if kind == "parquet":
            pq.write_table(table, out)
        else:
            out.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
        bucket.server.storage().put(f"{bucket.name}/in/{number}.{kind}", out.getvalue())
    options = {**bucket.options, "path": f"{bucket.url}/in", "format": kind}
    options |= {"maxFilesPerTrigger": "5", "ignoreCorruptFiles": "true"}
    query = source_query(FileSystemConnector(), options, SCHEMA)
    found = [row["id"] for row in query.run_batch()]
    with FAULTS[fault](bucket.network):
        while some := query.run_batch():
            found += [row["id"] for row in some]
    query.stop()
    assert sorted(found) == list(range(2000))
