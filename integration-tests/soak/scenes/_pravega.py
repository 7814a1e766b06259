"""Pravega to Pravega, exactly once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from penstock.dev import LocalServer, free_ports
from penstock.retry import RetryPolicy
from penstock_pravega.client import KeyRange, segment_name, stream_name
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from penstock_pravega.sink._event_appender import EventAppender
from soak.findings import Findings
from soak.records import KEYS, PollingChecker
from soak.scenes._scene import Fault, Scene, keep_copying, network_faults, stands_still
from suite.bad_network import BadNetwork

__all__ = ["pravega_scene"]

_SCOPE, _IN, _OUT = "soak", "in", "out"
_TICK_SECONDS = 0.1


class _Feeder(threading.Thread):
    """Appends events at an even rate, as a writer that waits for the server without a limit."""

    def __init__(self, toolbox: PravegaToolbox, rate: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self._per_key = max(1, round(rate * _TICK_SECONDS / len(KEYS)))
        self._ended = threading.Event()
        self.next = dict.fromkeys(KEYS, 0)
        full = stream_name(toolbox.scope, _IN)

        def ranges() -> Mapping[int, KeyRange]:
            return toolbox.controller.current_segments(toolbox.scope, _IN)

        self._appender = EventAppender(
            toolbox.stores,
            full,
            ranges(),
            lambda segment: segment_name(full, segment),
            ranges,
            retry=RetryPolicy(3600),
        )

    @property
    def fed(self) -> int:
        return sum(self.next.values())

    def run(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            pairs = [(key, n) for key in KEYS for n in range(self.next[key], self.next[key] + self._per_key)]
            values = pa.array([f"{key}:{n}".encode() for key, n in pairs], pa.large_binary())
            self._appender.append(values, pa.array([key for key, _ in pairs], pa.string()))
            self._appender.flush()
            self.next = {key: number + self._per_key for key, number in self.next.items()}

    def stop(self) -> None:
        self._ended.set()
        self.join()


class _Reader(PollingChecker):
    """Reads from where it was to the tail."""

    def __init__(self, toolbox: PravegaToolbox, findings: Findings) -> None:
        super().__init__(findings, ordered=True)
        self._toolbox = toolbox
        self._at = toolbox.head(_OUT)

    def take(self) -> Sequence[str]:
        tail = self._toolbox.tail(_OUT)
        events = self._toolbox.read(_OUT, self._at, tail)
        self._at = tail
        return [event.value.decode() for event in events]


def pravega_scene(folder: Path, rate: int, findings: Findings) -> Scene:
    """The server stands still (it keeps nothing when it ends), streams are scaled, and the network is bad.

    The segment store publishes the address of the bad network, so that its controller meets it as well.
    """
    with ExitStack() as stack:
        controller, store, zookeeper = free_ports(3)
        to_controller = stack.enter_context(BadNetwork(f"127.0.0.1:{controller}"))
        to_store = stack.enter_context(BadNetwork(f"127.0.0.1:{store}"))
        published = {"pravegaservice.service.published.port": str(to_store.port)}
        server = stack.enter_context(
            LocalServer(PravegaDevServer(published), folder / "server", ports=(controller, store, zookeeper))
        )
        toolboxes = [PravegaToolbox(server.address, _SCOPE) for _ in range(3)]
        for one in toolboxes:
            stack.callback(one.close)
        for stream in (_IN, _OUT):
            toolboxes[0].create_stream(stream, segments=2)
        where = {"controller": f"tcp://{to_controller.address}", "scope": _SCOPE}
        reading = {**where, "stream": _IN, "startingStreamCut": "head", "discoveryInterval": "1s"}
        writing = {**where, "stream": _OUT, "delivery": "exactly-once"}
        supervisor = keep_copying(
            folder,
            findings,
            source={"format": "penstock.pravega", "options": reading},
            columns=["split(cast(value as string), ':')[0] as routing_key", "value"],
            sink={"format": "penstock.pravega", "options": writing},
        )
        stack.callback(supervisor.stop)
        checker = _Reader(toolboxes[1], findings)
        stack.callback(checker.stop)
        faults = {
            "stands still": stands_still([server.address]),
            **network_faults([to_controller, to_store]),
            "streams are scaled": _scaling(toolboxes[2]),
        }
        return Scene(supervisor, _Feeder(toolboxes[0], rate), checker, faults, ends=stack.pop_all())


def _scaling(toolbox: PravegaToolbox) -> Fault:
    @contextmanager
    def scaled(dice: random.Random) -> Iterator[str]:
        stream = dice.choice([_IN, _OUT])
        toolbox.split_all(stream)
        yield f"each segment of '{stream}' becomes two, and they become one again"
        toolbox.merge_all(stream)

    return scaled
