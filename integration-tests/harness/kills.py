"""What is killed from outside, at any moment. Each function gives the victim's name, or nothing if there was none."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from harness.cluster import Cluster
from harness.driver import Driver
from harness.processes import kill, python_below
from penstock.dev import LocalServer

__all__ = ["Victim", "kill_driver", "kill_executor", "kill_server", "kill_worker", "restart"]

#: Kills something once, of or beside a driver.
Victim = Callable[[Driver, random.Random], str]
_MOST_SECONDS_DOWN = 3.0


def kill_driver(driver: Driver, dice: random.Random) -> str:
    """The driver with its JVM."""
    driver.kill()
    return "driver"


def kill_worker(driver: Driver, dice: random.Random) -> str:
    """One of the Python processes that work for the driver: a task's, a source's or a sink's."""
    return _kill_one(python_below(driver.pid), dice, "worker")


def kill_executor(cluster: Cluster, driver: Driver, dice: random.Random) -> str:
    """One of a standalone cluster's executors, with its Python workers."""
    return _kill_one(cluster.executors(), dice, "executor")


def kill_server(server: LocalServer, name: str, driver: Driver, dice: random.Random) -> str:
    """A server, which comes back."""
    restart(server, dice.uniform(0, _MOST_SECONDS_DOWN))
    return name


def restart(server: LocalServer, down_seconds: float = 0) -> None:
    """SIGKILL, and the same server again on the same data."""
    server.kill()
    time.sleep(down_seconds)
    server.start()


def _kill_one(pids: list[int], dice: random.Random, name: str) -> str:
    if not pids:
        return ""
    kill(dice.choice(pids))
    return name
