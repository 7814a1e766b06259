"""A cluster with two segment stores: each has some of the segments, and says so when it is asked for others."""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.dev import LocalServer
from penstock.metrics import Metrics
from penstock.sink import CheckpointLocation, Found, SinkContext, WriterContext
from penstock.storage import LocalStorage
from penstock_pravega.client import SegmentStores
from penstock_pravega.client._wire import WrongHost
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from penstock_pravega.options import SINK_OPTIONS, SinkOptions
from penstock_pravega.sink import create_sink

SCHEMA = pa.schema([("routing_key", pa.string()), ("value", pa.binary())])
SEGMENTS = 4


class Cluster(PravegaDevServer):
    """Run from its source, by the JDK."""

    port_count = 4

    def command(self, place):
        *others, second_store = place.ports
        command = super().command(dataclasses.replace(place, ports=others))
        controller, first_store, zookeeper = others
        main = command.index("io.pravega.local.LocalPravegaEmulator")
        source = Path(__file__).parent / "cluster" / "PravegaCluster.java"
        return [*command[:main], str(source), *map(str, (controller, zookeeper, first_store, second_store))]


@pytest.fixture(scope="module")
def pravega(tmp_path_factory):
    with LocalServer(Cluster(quick_start=True), tmp_path_factory.mktemp("cluster")) as server:
        toolbox = PravegaToolbox(server.address)
        yield toolbox
        toolbox.close()


@pytest.fixture
def stream(pravega):
    """One that is on both."""
    for _ in range(50):
        name = pravega.create_stream(segments=SEGMENTS)
        if len(homes(pravega, name)) == 2:
            return name
    raise AssertionError("every segment is on the same one")


def homes(pravega, name):
    return {pravega.controller.locate(pravega.scope, name, segment) for segment in range(SEGMENTS)}


@pytest.fixture
def misled(pravega, stream, monkeypatch, no_pauses):
    """Whoever looks for a segment is first sent to the one that does not have it; the refusals that come."""
    honest, recover = SegmentStores.address, SegmentStores.recover
    both, refusals = homes(pravega, stream), []

    def address(self, of, segment):
        wrong = self.__dict__.setdefault("misled", {})
        if (of, segment) not in wrong:
            (wrong[of, segment],) = both - {honest(self, of, segment)}
            self._addresses[of, segment] = wrong[of, segment]
        return honest(self, of, segment)

    def count(self, error, *rest, **options):
        refusals.append(error)
        return recover(self, error, *rest, **options)

    monkeypatch.setattr(SegmentStores, "address", address)
    monkeypatch.setattr(SegmentStores, "recover", count)
    return refusals


def events(count):
    return [(f"key-{number % 50}", b"%d" % number) for number in range(count)]


def test_the_wrong_one_refuses_and_the_right_one_is_found(pravega, stream, misled):
    stores = SegmentStores(pravega.settings)
    try:
        found = [stores.info(f"{pravega.scope}/{stream}", segment).end for segment in range(SEGMENTS)]
    finally:
        stores.close()
    assert found == [0] * SEGMENTS
    assert len(misled) == SEGMENTS and all(isinstance(error, WrongHost) for error in misled)


def test_a_stream_is_read_from_both(pravega, pravega_source, stream, misled):
    pravega.write(stream, events(1000))
    assert misled, "nobody was sent to the wrong one"
    del misled[:]
    found = pravega_source(stream=stream).values()
    assert Counter(found) == Counter(value for _, value in events(1000))
    assert any(isinstance(error, WrongHost) for error in misled)


def test_a_transaction_is_on_both(pravega, stream, misled, tmp_path):
    given = {"controller": pravega.address, "scope": pravega.scope, "stream": stream, "delivery": "exactly-once"}
    checkpoint = CheckpointLocation(LocalStorage(), str(tmp_path))
    context = SinkContext("query", SCHEMA, Metrics(), checkpoint)
    sink = create_sink(SinkOptions.from_values(SINK_OPTIONS.parse(given, owner="sink penstock.pravega")), SCHEMA)
    sink = sink.start(context)
    writer = sink.create_writer(
        WriterContext("query", SCHEMA, Metrics(), checkpoint, attempt_id=uuid.uuid4().hex),
    )
    keys, values = zip(*events(5000), strict=True)
    writer.write(pa.record_batch([list(keys), list(values)], schema=SCHEMA))
    committables = writer.prepare_commit().committables
    writer.close()
    assert len(committables[0].segments) == SEGMENTS
    assert any(isinstance(error, WrongHost) for error in misled)
    committer = sink.create_committer(context)
    assert committer.look(committables) == [Found.OPEN]
    assert committer.publish(committables) == [Found.COMMITTED]
    committer.close()
    assert Counter(pravega.values(stream)) == Counter(values)
