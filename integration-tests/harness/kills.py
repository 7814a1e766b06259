"""Kills parts of a running system. Each function returns what it killed, or "" if there was nothing to kill."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from harness.cluster import Cluster
from harness.driver import Driver
from harness.processes import kill, python_below
from penstock.dev import LocalServer

__all__ = ["Victim", "kill_driver", "kill_executor", "kill_server", "kill_worker", "restart"]

#: Kills one thing: a part of the driver, or a server beside it.
Victim = Callable[[Driver, random.Random], str]
_MOST_SECONDS_DOWN = 3.0


def kill_driver(driver: Driver, dice: random.Random) -> str:
    """Kills the driver with its JVM."""
    driver.kill()
    return "driver"


def kill_worker(driver: Driver, dice: random.Random) -> str:
    """Kills a Python process of the driver: that of a task, of a source or of a sink."""
    return _kill_one(python_below(driver.pid), dice, "worker")


def kill_executor(cluster: Cluster, driver: Driver, dice: random.Random) -> str:
    """Kills an executor of the cluster with its Python workers."""
    return _kill_one(cluster.executors(), dice, "executor")


def kill_server(server: LocalServer, name: str, driver: Driver, dice: random.Random) -> str:
    """Kills a server, and starts it again within seconds."""
    restart(server, dice.uniform(0, _MOST_SECONDS_DOWN))
    return name


def restart(server: LocalServer, down_seconds: float = 0) -> None:
    """Kills a server with SIGKILL, and starts it again on the same data."""
    server.kill()
    time.sleep(down_seconds)
    server.start()


def _kill_one(pids: list[int], dice: random.Random, name: str) -> str:
    if not pids:
        return ""
    kill(dice.choice(pids))
    return name
