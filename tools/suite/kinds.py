"""Where a test's time goes: the main thread's, by what it waits for. Written down with ``scripts/test --where FILE``.

Kinds: ``sleep`` (time.sleep, in the test or in what it tests), ``process`` (waiting for a child), ``thread`` (waiting
for another thread), ``jvm`` and ``session`` (starting Spark), ``spark`` (waiting for a call to the JVM), ``server``
(starting or ending one), and ``own`` for the rest, which is Python at work or in a system call.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["Kinds"]


class Kinds:
    """Exclusive times by kind, of the main thread only; ``install`` wraps what is waited with, once a process."""

    def __init__(self) -> None:
        self._main = threading.main_thread()
        self._stack = ["own"]
        self._seconds: dict[str, float] = {}
        self._since = time.perf_counter()
        self._wrapped: set[tuple[Any, str]] = set()

    def take(self) -> dict[str, float]:
        """Seconds by kind since it was last asked."""
        self._count()
        taken, self._seconds = self._seconds, {}
        return {kind: round(seconds, 3) for kind, seconds in taken.items() if seconds >= 0.001}

    def install(self) -> None:
        """Wraps what is imported by now; called again before each test, since Spark may be imported late."""
        self._wrap(time, "sleep", "sleep")
        self._wrap(subprocess.Popen, "wait", "process")
        self._wrap(subprocess.Popen, "communicate", "process")
        self._wrap(threading.Event, "wait", "thread")
        self._wrap(threading.Thread, "join", "thread")
        modules = sys.modules
        if server := getattr(modules.get("penstock.dev._local"), "LocalServer", None):
            self._wrap(server, "start", "server")
            self._wrap(server, "stop", "server")
            self._wrap(server, "kill", "server")
        if context := modules.get("pyspark.core.context"):
            self._wrap(context, "launch_gateway", "jvm")
        if session := getattr(modules.get("pyspark.sql.session"), "SparkSession", None):
            self._wrap(session.Builder, "getOrCreate", "session")
            self._wrap(session, "stop", "session")
        if connection := getattr(modules.get("py4j.clientserver"), "ClientServerConnection", None):
            self._wrap(connection, "send_command", "spark")
        if connection := getattr(modules.get("py4j.java_gateway"), "GatewayConnection", None):
            self._wrap(connection, "send_command", "spark")

    def _wrap(self, owner: Any, name: str, kind: str) -> None:
        if (owner, name) in self._wrapped:
            return
        self._wrapped.add((owner, name))
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not self._main or self._stack[-1] in ("jvm", "session", "server"):
                return original(*args, **kwargs)  # what starting Spark or a server waits for counts as that
            with self._of(kind):
                return original(*args, **kwargs)

        setattr(owner, name, wrapped)

    @contextmanager
    def _of(self, kind: str) -> Generator[None]:
        self._count()
        self._stack.append(kind)
        try:
            yield
        finally:
            self._count()
            self._stack.pop()

    def _count(self) -> None:
        now = time.perf_counter()
        kind = self._stack[-1]
        self._seconds[kind] = self._seconds.get(kind, 0.0) + now - self._since
        self._since = now
