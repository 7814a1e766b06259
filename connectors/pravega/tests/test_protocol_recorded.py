"""Both protocols against exchanges with a real server, recorded: what is sent is compared byte by byte.

Each scenario runs twice: against its recording, without a server, and on the real one, where it must come to the same
result. ``RECORD_EXCHANGES=1`` records them anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock_pravega.client import (
    ControllerSettings,
    NoSuchSegment,
    RangeReader,
    SegmentAppender,
    SegmentSealed,
    SegmentStores,
    SegmentTruncated,
    TransactionState,
    frame_events,
    segment_name,
    transaction_segment_name,
)
from penstock_pravega.client import _appender as appender_module
from penstock_pravega.client import _segment_stores as stores_module

FOLDER = Path(__file__).parent / "recorded"
EVENTS = [b"event %d" % number * (number % 5) for number in range(20)]
FRAMED = bytes(frame_events(pa.array(EVENTS, pa.large_binary())))
LEASE_MS = 30_000


# --- scenarios: what is done before, unrecorded, and what is recorded -------------------------------------------------


def append(stores, stream, segment, name):
    appender = SegmentAppender(stores, stream, segment, name)
    try:
        appender.append(FRAMED, len(EVENTS))
        appender.append(FRAMED, len(EVENTS))
        appender.flush()
        return appender.bytes
    except (NoSuchSegment, SegmentSealed) as error:
        return type(error).__name__
    finally:
        appender.close()


def read(stores, stream, segment, start, end, chunk=256):
    reader, data = RangeReader(stores, stream, segment, start, end, chunk=chunk), bytearray()
    try:
        while (piece := reader.read()) is not None:
            data += piece
    except (NoSuchSegment, SegmentTruncated) as error:
        return f"{type(error).__name__} after {len(data)} bytes"
    finally:
        reader.close()
    return data.hex()


def written(toolbox, name):
    toolbox.write(name, [("k", event) for event in EVENTS])


def a_range_is_read(stores, scope, name):
    stream = f"{scope}/{name}"
    info = stores.info(stream, 0)
    return [info.start, info.end, read(stores, stream, 0, 0, info.end), read(stores, stream, 0, 8, 40, chunk=16)]


def truncated(toolbox, name):
    written(toolbox, name)
    toolbox.controller.truncate_stream(toolbox.scope, name, {0: len(FRAMED) // 2})
    toolbox.split_all(name)
    toolbox.controller.truncate_stream(toolbox.scope, name, toolbox.tail(name))


def what_is_gone_is_told(stores, scope, name):
    stream = f"{scope}/{name}"
    with pytest.raises(NoSuchSegment):
        stores.info(stream, 0)
    return [read(stores, stream, 0, 0, 100), sorted(stores.controller.head_cut(scope, name).items())]


def half_truncated(toolbox, name):
    written(toolbox, name)
    toolbox.controller.truncate_stream(toolbox.scope, name, {0: len(FRAMED) // 2})


def a_start_that_is_gone_is_told(stores, scope, name):
    info = stores.info(f"{scope}/{name}", 0)
    return [info.start, read(stores, f"{scope}/{name}", 0, 0, info.end)]


def scaled(toolbox, name):
    written(toolbox, name)
    toolbox.split_all(name)
    written(toolbox, name)
    toolbox.merge_all(name)


def a_scaling_is_followed(stores, scope, name):
    controller = stores.controller
    segments, found = [0], []
    while segments:
        after = controller.successors(scope, name, segments[0])
        found.append({str(segment): sorted(before) for segment, before in after.items()})
        segments = sorted(after)
    current = controller.current_segments(scope, name)
    cut = {segment: stores.info(f"{scope}/{name}", segment).end for segment in current}
    ends = [stores.info(f"{scope}/{name}", one) for one in sorted(controller.epoch_segments(scope, name, 1))]
    return [
        found,
        sorted(current),
        controller.segments_between(scope, name, controller.head_cut(scope, name), cut),
        [[info.end, info.is_sealed] for info in ends],
    ]


def nothing(toolbox, name):
    pass


def blocks_are_appended(stores, scope, name):
    stream = f"{scope}/{name}"
    sent = append(stores, stream, 0, segment_name(stream, 0))
    return [sent, stores.info(stream, 0).end, read(stores, stream, 0, 0, sent) == (FRAMED * 2).hex()]


def sealed(toolbox, name):
    toolbox.controller.seal_stream(toolbox.scope, name)


def a_sealed_segment_takes_nothing(stores, scope, name):
    stream = f"{scope}/{name}"
    return [append(stores, stream, 0, segment_name(stream, 0)), stores.info(stream, 0).is_sealed]


def a_transaction_is_committed(stores, scope, name):
    stream, controller = f"{scope}/{name}", stores.controller
    number, ranges = controller.begin_transaction(scope, name, LEASE_MS)
    part = transaction_segment_name(stream, 0, number)
    sent = append(stores, stream, 0, part)
    found = [sorted(ranges), stores.info(stream, 0, part).end == sent, stores.info(stream, 0).end]
    found += [controller.ping_transaction(scope, name, number, LEASE_MS).name]
    found += [controller.transaction_state(scope, name, number).name]
    found += [controller.commit_transaction(scope, name, number)]
    while (state := controller.transaction_state(scope, name, number)) is TransactionState.COMMITTING:
        pass
    found += [state.name, controller.commit_transaction(scope, name, number)]
    found += [controller.abort_transaction(scope, name, number), stores.info(stream, 0).end == sent]
    return [*found, append(stores, stream, 0, part)]


def a_transaction_is_aborted(stores, scope, name):
    stream, controller = f"{scope}/{name}", stores.controller
    number, _ = controller.begin_transaction(scope, name, LEASE_MS)
    append(stores, stream, 0, transaction_segment_name(stream, 0, number))
    found = [controller.abort_transaction(scope, name, number)]
    while (state := controller.transaction_state(scope, name, number)) is TransactionState.ABORTING:
        pass
    found += [state.name, controller.commit_transaction(scope, name, number), stores.info(stream, 0).end]
    return [*found, controller.transaction_state(scope, name, 17).name]


def times_are_noted(stores, scope, name):
    cut = {0: stores.info(f"{scope}/{name}", 0).end}
    return [stores.controller.note_time(scope, name, "a-writer", cut, time) for time in (1000, 2000, 1500)]


def what_is_not_there_is_told(stores, scope, name):
    found = []
    for question in (
        lambda: stores.controller.current_segments(scope, "none"),
        lambda: stores.controller.begin_transaction("none", name, LEASE_MS),
        lambda: stores.controller.segments_between(scope, name, {0: 10}, {0: 0}),
        lambda: stores.controller.create_stream("none", name),
    ):
        with pytest.raises(PenstockError) as raised:
            question()
        found.append(type(raised.value).__name__)
    return [*found, stores.controller.stream_exists(scope, name), stores.controller.stream_exists(scope, "none")]


SCENARIOS = {
    a_range_is_read: written,
    what_is_gone_is_told: truncated,
    a_start_that_is_gone_is_told: half_truncated,
    a_scaling_is_followed: scaled,
    blocks_are_appended: nothing,
    a_sealed_segment_takes_nothing: sealed,
    a_transaction_is_committed: nothing,
    a_transaction_is_aborted: nothing,
    times_are_noted: written,
    what_is_not_there_is_told: nothing,
}


# --- recording --------------------------------------------------------------------------------------------------------


class Calls(grpc.GenericRpcHandler):
    """A controller's service: ``answer(method, request)`` gives bytes, or raises :class:`Failed`."""

    def __init__(self, answer):
        self._answer = answer

    def service(self, details):
        def handle(request, context):
            try:
                return self._answer(details.method.rpartition("/")[2], request)
            except Failed as error:
                context.abort(error.code, error.said)

        return grpc.unary_unary_rpc_method_handler(handle)


class Failed(Exception):
    def __init__(self, code, said):
        super().__init__(said)
        self.code, self.said = code, said


@contextlib.contextmanager
def serving(answer):
    """The address of a controller that answers so."""
    with ThreadPoolExecutor(1) as workers:
        server = grpc.server(workers, [Calls(answer)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"tcp://127.0.0.1:{port}"
        finally:
            server.stop(0).wait()


@contextlib.contextmanager
def listening(serve):
    """The address of a segment store; ``serve(socket)`` gets each connection, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()


def frames(connection):
    """Messages, whole, until the other side hangs up."""
    with contextlib.suppress(OSError), connection.makefile("rb") as file:
        while len(head := file.read(8)) == 8:
            yield head + file.read(struct.unpack(">ii", head)[1])


def hang_up(connection):
    """At once, though another thread is reading from it: the socket would be closed behind that one."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextlib.contextmanager
def recording(controller_address, store_address, into):
    """Addresses of relays to a real server; what goes over them is put into ``into``."""
    calls = into["controller"] = []
    connections = into["segment stores"] = []
    channel = grpc.insecure_channel(controller_address.removeprefix("tcp://"))

    def call(method, request):
        full = f"/io.pravega.controller.stream.api.grpc.v1.ControllerService/{method}"
        try:
            answer = channel.unary_unary(full)(request, timeout=30)
        except grpc.RpcError as error:
            calls.append([method, request.hex(), {"code": error.code().name, "said": error.details()}])
            raise Failed(error.code(), error.details()) from None
        calls.append([method, request.hex(), answer.hex()])
        return answer

    def relay(near):
        sent, came = [], []
        connections.append({"sent": sent, "came": came})
        far = socket.create_connection(store_address)

        def back():
            for frame in frames(far):
                came.append([len(sent), frame.hex()])
                near.sendall(frame)
            hang_up(near)

        threading.Thread(target=back, daemon=True).start()
        for frame in frames(near):
            sent.append(frame.hex())
            with contextlib.suppress(OSError):
                far.sendall(frame)
        hang_up(far)

    with serving(call) as controller, listening(relay) as store, channel:
        yield controller, store


@contextlib.contextmanager
def replaying(recorded, wrong):
    """Addresses that play a recording; what does not fit is put into ``wrong``."""
    calls, connections = iter(recorded["controller"]), iter(recorded["segment stores"])

    def call(method, request):
        expected = next(calls, ["nothing", "", ""])
        if expected[:2] != [method, request.hex()]:
            wrong.append(f"called {method} {request.hex()}, recorded: {expected[0]} {expected[1]}")
        if isinstance(expected[2], dict):
            raise Failed(getattr(grpc.StatusCode, expected[2]["code"]), expected[2]["said"])
        return bytes.fromhex(expected[2])

    def play(near):
        expected = next(connections, {"sent": [], "came": []})
        came = iter([*expected["came"], [float("inf"), ""]])
        after, answer = next(came)
        for number, frame in enumerate(frames(near), start=1):
            if frame.hex() not in expected["sent"][number - 1 : number]:
                wrong.append(f"sent {frame.hex()}, recorded: {expected['sent'][number - 1 : number]}")
                near.shutdown(socket.SHUT_RDWR)
            while after <= number:
                near.sendall(bytes.fromhex(answer))
                after, answer = next(came)

    with serving(call) as controller, listening(play) as store:
        yield controller, store
        wrong += [f"not called: {method}" for method, _, _ in calls]
        wrong += [f"no connection that sends {each['sent'][0]}" for each in connections]


@contextlib.contextmanager
def stores_at(controller, store, monkeypatch):
    """Connections whose every message is the same each time."""
    monkeypatch.setattr(stores_module, "_requests", count(1))
    writers = count(7)
    monkeypatch.setattr(appender_module.uuid, "uuid4", lambda: uuid.UUID(int=next(writers)))
    stores = SegmentStores(ControllerSettings(controller, timeout_s=10))
    monkeypatch.setattr(type(stores.controller), "locate", lambda *where: store)
    try:
        yield stores
    finally:
        stores.close()
        stores.controller.close()
        stores_module._controllers.forget(stores.settings)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_as_recorded(scenario, monkeypatch):
    recorded = json.loads((FOLDER / f"{scenario.__name__}.json").read_text())
    wrong: list[str] = []
    with (
        replaying(recorded, wrong) as addresses,
        stores_at(*addresses, monkeypatch) as stores,
    ):
        result = scenario(stores, recorded["scope"], recorded["stream"])
    assert wrong == [] and json.loads(json.dumps(result)) == recorded["result"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_server_still_answers_so(scenario, pravega, monkeypatch):
    stream = pravega.create_stream()
    SCENARIOS[scenario](pravega, stream)
    where = pravega.controller.locate(pravega.scope, stream, 0)
    found = {"scope": pravega.scope, "stream": stream}
    with (
        recording(pravega.address, where, found) as addresses,
        stores_at(*addresses, monkeypatch) as stores,
    ):
        result = found["result"] = scenario(stores, pravega.scope, stream)
    path = FOLDER / f"{scenario.__name__}.json"
    if "RECORD_EXCHANGES" in os.environ:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
    recorded = json.loads(path.read_text())
    assert json.loads(json.dumps(result)) == recorded["result"]
