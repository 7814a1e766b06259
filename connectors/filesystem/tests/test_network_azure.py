"""A bad network between us and Azure: answers that are lost, and connections that are slow, cut or dead."""

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
from penstock.storage import AzureStorage, open_storage
from penstock_filesystem import FileSystemConnector
from suite.azure import ACCOUNT, AzureServer
from suite.bad_network import BadNetwork
from suite.frames import HttpFrames
from suite.over_network import FAULTS, every, sink_query, source_query

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
MORE_THAN_CLIENTS_TRY = 7
#: Every request of a query that writes, with its checkpoint on Azure too.
ASKED = {
    "a decision": r"PUT .*/decisions/.*json",
    "the note that it is done": r"PUT .*/decisions/.*done",
    "the list of decisions": r"GET .*comp=list.*decisions|GET .*decisions.*comp=list",
    "the offsets": r"GET .*/offsets/",
    "a chunk": r"PUT .*\.chunk",
    "a block": r"PUT .*comp=block&",
    "a marker": r"PUT .*\.blocks",
    "a look at a marker": r"HEAD .*\.blocks",
    "the list of blocks": r"GET .*comp=blocklist",
    "the commit of blocks": r"PUT .*comp=blocklist",
    "a removal": r"DELETE ",
}


@dataclass
class Container:
    """A container behind a bad network."""

    name: str
    server: AzureServer
    network: BadNetwork

    @property
    def options(self):
        return {**self.server.options(), "azure.endpoint": f"http://{self.network.address}/{ACCOUNT}"}

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
def container(azure_server):
    with BadNetwork(azure_server.endpoint.split("/")[2], HttpFrames) as network:
        yield Container(azure_server.new_container(), azure_server, network)


def rows(batch_id, writer, count=50):
    ids = [batch_id * 1000 + writer * 100 + i for i in range(count)]
    return pa.record_batch([ids, ["x" * 40] * count], schema=SCHEMA)


BATCHES = [[[rows(number, 0)], [rows(number, 1)]] for number in range(4)]


def ids_of(batches):
    return Counter(i for shares in batches for share in shares for part in share for i in part[0].to_pylist())


def writing(container):
    options = {
        **container.options,
        "path": f"{container.url}/out",
        "format": "json",
        "bucketAssigner": "basePath",
        "maxPartSize": "5kb",
    }
    return sink_query(FileSystemConnector(), options, SCHEMA, f"{container.name}/checkpoint", container.storage)


@pytest.mark.parametrize(
    ("kind", "times", "keep"),
    every(
        list(ASKED),
        (1, MORE_THAN_CLIENTS_TRY),
        (0.0, 0.1, 0.5, 0.99),
        witnesses=[("the commit of blocks", 1, 0.0), ("the list of blocks", 1, 0.5), ("a look at a marker", 1, 0.5)],
        otherwise="every request, lost and cut; the commit of blocks is the witness",
    ),
)
def test_an_answer_is_lost(container, kind, times, keep):
    loss = container.network.lose(ASKED[kind], times=times, keep=keep)
    query = writing(container)
    query.run_all(BATCHES)
    container.network.mend()
    assert loss.lost
    assert container.ids() == ids_of(BATCHES)
    query.finish()
    with query.committer() as committer:
        committer.clear(Kept(1 << 30, generation=1 << 30))
    assert not container.names(hidden=True)


@pytest.mark.parametrize("kind", ["PUT .*/trial", "GET .*/trial", "PUT .*place.json", "DELETE .*"])
def test_an_answer_is_lost_when_a_checkpoint_begins(container, kind):
    loss = container.network.lose(kind)
    made = open_identity(container.storage, f"{container.name}/checkpoint", "q")
    assert loss.lost
    assert open_identity(container.storage, f"{container.name}/checkpoint", "q") == made


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("call", ["size", "list_names", "list_tree", "staged_blocks", "read", "age_s"])
def test_an_answer_that_is_cut_is_asked_for_again(container, call, keep):
    """None of it counts for nothing: no list without entries, no blob that is not there."""
    path = f"{container.name}/d/x"
    container.server.storage().put(path, b"1234")
    container.server.storage().stage_block(path, "MDAwMDAx", b"x")
    asked = f"{container.name}/d" if call.startswith("list") else path
    loss = container.network.lose(".*", keep=keep)
    found = getattr(AzureStorage, call)(container.storage, asked)
    assert loss.lost
    expected = {"size": 4, "list_names": ["x"], "list_tree": [path], "staged_blocks": {"MDAwMDAx"}, "read": b"1234"}
    assert found == expected[call] if call in expected else 0 <= found < 600


@pytest.mark.parametrize(
    "fault",
    every(list(FAULTS), witnesses=[], otherwise="up to two minutes each; lost answers are the witness"),
)
def test_a_query_writes_through(container, fault):
    query = writing(container)
    query.run(0, BATCHES[0])
    with FAULTS[fault](container.network):
        query.run_all(BATCHES[:2])
    container.network.mend()
    assert container.ids() == ids_of(BATCHES[:2])


@pytest.mark.parametrize(
    ("fault", "kind"),
    every(list(FAULTS), ("json", "parquet"), witnesses=[], otherwise="ten seconds to two minutes each"),
)
def test_a_query_reads_through(container, fault, kind):
    """Bytes that do not arrive make no file corrupt, which would be skipped here."""
    for number in range(20):
        table = pa.table({"id": list(range(number * 100, number * 100 + 100)), "text": ["x" * 40] * 100})
        out = io.BytesIO()
        if kind == "parquet":
            pq.write_table(table, out)
        else:
            out.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
        container.server.storage().put(f"{container.name}/in/{number}.{kind}", out.getvalue())
    options = {**container.options, "path": f"{container.url}/in", "format": kind}
    options |= {"maxFilesPerTrigger": "5", "ignoreCorruptFiles": "true"}
    query = source_query(FileSystemConnector(), options, SCHEMA)
    found = [row["id"] for row in query.run_batch()]
    with FAULTS[fault](container.network):
        while some := query.run_batch():
            found += [row["id"] for row in some]
    query.stop()
    assert sorted(found) == list(range(2000))
