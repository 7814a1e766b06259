"""What the scenes have in common."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.dev import LocalServer
from soak.findings import Findings
from soak.run import CheckerThread, FeederThread
from soak.supervisor import Supervisor
from suite.away import standing_still
from suite.bad_network import BadNetwork

__all__ = ["Fault", "Scene", "keep_copying", "network_faults", "node_faults", "stands_still"]

#: Something that is so for the time of a ``with`` block; it yields what exactly.
Fault = Callable[[random.Random], AbstractContextManager[str]]


@dataclass
class Scene:
    """A job that runs, and what can be done to it. ``ends`` closes everything."""

    supervisor: Supervisor
    feeder: FeederThread
    checker: CheckerThread
    faults: Mapping[str, Fault]
    #: Called each second with the seconds since the job has recovered.
    look: Callable[[float], None] = lambda calm_seconds: None
    ends: ExitStack = field(default_factory=ExitStack)


def keep_copying(folder: Path, findings: Findings, **spec: Any) -> Supervisor:
    """Starts ``jobs/keep_copying.py``."""
    (folder / "spec.json").write_text(json.dumps(spec))
    return Supervisor(folder, "keep_copying", {"spec": folder / "spec.json"}, findings, may_end=False)


def node_faults(nodes: Sequence[LocalServer]) -> dict[str, Fault]:
    """One node is killed, shut down or stands still, or each is restarted in turn."""

    def down(end: Callable[[LocalServer], None]) -> Fault:
        @contextmanager
        def manager(dice: random.Random) -> Iterator[str]:
            node = dice.choice(nodes)
            end(node)
            try:
                yield node.address
            finally:
                node.start()

        return manager

    @contextmanager
    def rolled(dice: random.Random) -> Iterator[str]:
        for node in nodes:
            node.stop()
            node.start()
            time.sleep(dice.uniform(0, 5))
        yield f"{len(nodes)} nodes"

    still = stands_still([node.address for node in nodes])
    return {
        "killed": down(LocalServer.kill),
        "shut down": down(LocalServer.stop),
        "stands still": still,
        "rolling restart": rolled,
    }


def stands_still(addresses: Sequence[str]) -> Fault:
    """One of the servers is stopped (SIGSTOP), and continues afterwards."""

    @contextmanager
    def still(dice: random.Random) -> Iterator[str]:
        address = dice.choice(addresses)
        stopped = standing_still(address)
        assert stopped is not None, f"no process listens at {address}"
        with stopped():
            yield address

    return still


def network_faults(networks: Sequence[BadNetwork]) -> dict[str, Fault]:
    """The way to one server, or to several, is bad."""

    def fault(begin: Callable[[BadNetwork], Any]) -> Fault:
        @contextmanager
        def manager(dice: random.Random) -> Iterator[str]:
            chosen = dice.sample(networks, dice.randint(1, len(networks)))
            for network in chosen:
                begin(network)
            try:
                yield f"{len(chosen)} of {len(networks)} ways"
            finally:
                for network in chosen:
                    network.mend()

        return manager

    def setting(name: str, value: float) -> Fault:
        return fault(lambda network: setattr(network, name, value))

    return {
        "2 s of latency": setting("latency_s", 1.0),
        "100 kB/s": setting("bytes_per_s", 100_000),
        "1 % of packets reset": setting("resets", 0.01),
        "1 % of answers cut": setting("cuts", 0.01),
        "nothing reaches the server": fault(lambda network: network.hold("to server")),
        "nothing comes back": fault(lambda network: network.hold("to client")),
        "all connections reset": fault(BadNetwork.reset),
        "all connections half open": fault(BadNetwork.half_open),
    }
