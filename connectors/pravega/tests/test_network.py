"""A bad network between us and the servers: answers that are lost, and connections that are slow, cut or dead."""

from __future__ import annotations

import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest

from penstock.dev import LocalServer, free_ports
from penstock_pravega import PravegaConnector
from penstock_pravega.client import Controller
from penstock_pravega.client._grpc import grpc
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from suite.bad_network import BadNetwork, Loss
from suite.frames import PravegaFrames
from suite.kept import kept_for_directory
from suite.over_network import FAULTS, sink_query, source_query

pytestmark = pytest.mark.exhaustive(
    "a server of its own, and minutes; a controller that falls silent is the witness (test_grpc)"
)

SCHEMA = pa.schema([("routing_key", pa.string()), ("value", pa.string())])
IMPATIENT = {"requestTimeout": "4s"}
#: What a query that writes exactly once asks the controller.
CALLS = [
    *("createTransaction", "pingTransaction", "commitTransaction", "checkTransactionState", "getURI"),
    "checkStreamExists",
]
UNKNOWN_FRAMES = ("controller", "3 % cut answers")
#: What it asks the segment store.
MESSAGES = ["Hello", "SetupAppend", "AppendBlockEnd", "GetSegmentInfo"]


class LossyController(grpc.GenericRpcHandler):
    """Passes calls on, and loses answers: the client is told that the connection is gone, as gRPC does it."""

    def __init__(self, target):
        self._channel = grpc.insecure_channel(target)
        self._losses = []
        self.counts = Counter()

    def lose(self, kind, nth=1, times=1):
        self._losses.append(Loss(kind, nth, times))
        return self._losses[-1]

    def service(self, details):
        method = details.method.rpartition("/")[2]
        ask = self._channel.unary_unary(details.method)

        def answer(request, context):
            self.counts[method] += 1
            try:
                found = ask(request, timeout=30)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            if any(loss.takes(method) for loss in self._losses):
                context.abort(grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer")
            return found

        return grpc.unary_unary_rpc_method_handler(answer)

    def mend(self):
        self._losses.clear()


@dataclass
class Networks:
    """The ways to a server: ``controller`` and ``stores`` are bad networks, at ``lossy_address`` answers are lost."""

    toolbox: PravegaToolbox
    controller: BadNetwork
    stores: BadNetwork
    lossy: LossyController
    lossy_address: str

    def mend(self):
        for one in (self.controller, self.stores, self.lossy):
            one.mend()


@contextmanager
def _with_networks(folder):
    controller, store, zookeeper = free_ports(3)
    with (
        BadNetwork(f"127.0.0.1:{controller}") as to_controller,
        BadNetwork(f"127.0.0.1:{store}", PravegaFrames) as to_stores,
    ):
        server = PravegaDevServer(quick_start=True)
        with LocalServer(server, folder, ports=(controller, store, zookeeper)) as running:
            lossy = LossyController(f"127.0.0.1:{controller}")
            passing = grpc.server(ThreadPoolExecutor(8), handlers=[lossy])
            port = passing.add_insecure_port("127.0.0.1:0")
            passing.start()
            toolbox = PravegaToolbox(running.address, f"network-{uuid.uuid4().hex[:8]}")
            yield Networks(toolbox, to_controller, to_stores, lossy, f"tcp://127.0.0.1:{port}")
            toolbox.close()
            passing.stop(None)


@pytest.fixture(scope="module")
def _networks(request, tmp_path_factory):
    return kept_for_directory(request, "networks", lambda: _with_networks(tmp_path_factory.mktemp("networks")))


@pytest.fixture
def networks(_networks, monkeypatch):
    """Segment stores are found behind their network, but for the toolbox.

    They do not publish that address: the controller uses it as well, to merge what is committed.
    """
    locate = Controller.locate

    def locate_behind(self, *segment):
        host, port = locate(self, *segment)
        return (host, port) if self._settings.uri == _networks.toolbox.address else ("127.0.0.1", _networks.stores.port)

    monkeypatch.setattr(Controller, "locate", locate_behind)
    yield _networks
    _networks.mend()
    _networks.stores.reset()
    _networks.controller.reset()


def rows(batch_id, writer, count=20):
    values = [f"{batch_id}.{writer}.{i}" for i in range(count)]
    return pa.record_batch([values, values], schema=SCHEMA)


BATCHES = [[[rows(number, 0)], [rows(number, 1)]] for number in range(3)]
EVERYTHING = Counter(value for shares in BATCHES for share in shares for part in share for value in part[1].to_pylist())


def writing(networks, address, stream, folder, delivery="exactly-once"):
    options = {"controller": address, "scope": networks.toolbox.scope, "stream": stream, "delivery": delivery}
    return sink_query(PravegaConnector(), {**options, **IMPATIENT}, SCHEMA, folder / "checkpoint")


def seen(networks, stream):
    networks.mend()
    return Counter(value.decode() for value in networks.toolbox.values(stream))


@pytest.mark.parametrize(
    ("kind", "nth"),
    # Whether the stream exists is asked once in a query.
    [(kind, nth) for kind in CALLS for nth in (1, 2) if (kind, nth) != ("checkStreamExists", 2)],
)
def test_an_answer_of_the_controller_is_lost(networks, tmp_path, kind, nth):
    stream = networks.toolbox.create_stream(segments=2)
    loss = networks.lossy.lose(f"{kind}$", nth)
    query = writing(networks, networks.lossy_address, stream, tmp_path)
    query.run_all(BATCHES)
    assert loss.lost, networks.lossy.counts
    assert seen(networks, stream) == EVERYTHING


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("keep", [0.0, 0.5], ids=["lost", "cut"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("kind", MESSAGES)
def test_an_answer_of_a_segment_store_is_lost(networks, tmp_path, delivery, kind, nth, keep):
    stream = networks.toolbox.create_stream(segments=2)
    loss = networks.stores.lose(f"{kind}$", nth, keep=keep)
    query = writing(networks, networks.lossy_address, stream, tmp_path, delivery)
    query.run_all(BATCHES)
    assert loss.lost or (kind, delivery) == ("GetSegmentInfo", "at-least-once"), networks.stores.counts
    assert seen(networks, stream) == EVERYTHING


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize(
    ("where", "fault"),
    # The frames of gRPC are not known here, so that none can be cut.
    [(where, fault) for where in ("controller", "stores") for fault in FAULTS if (where, fault) != UNKNOWN_FRAMES],
)
def test_a_query_writes_through(networks, tmp_path, fault, where, delivery):
    stream = networks.toolbox.create_stream(segments=2)
    query = writing(networks, f"tcp://{networks.controller.address}", stream, tmp_path, delivery)
    query.run(0, BATCHES[0])
    with FAULTS[fault](getattr(networks, where)):
        query.run_all(BATCHES)
    found = seen(networks, stream)
    assert found == EVERYTHING if delivery == "exactly-once" else found >= EVERYTHING


@pytest.mark.parametrize("fault", FAULTS)
def test_a_query_reads_through(networks, fault):
    stream = networks.toolbox.create_stream(segments=2)
    values = [f"{i}".encode() for i in range(2000)]
    networks.toolbox.write(stream, values)
    options = {"controller": f"tcp://{networks.controller.address}", "scope": networks.toolbox.scope, "stream": stream}
    range_ = {"startingStreamCut": "head", "endingStreamCut": "tail"}
    query = source_query(PravegaConnector(), {**options, **range_, **IMPATIENT})
    with FAULTS[fault](networks.stores):
        found = []
        while some := query.run_batch():
            found += [row["value"] for row in some]
    query.stop()
    assert sorted(found) == sorted(values)
