"""Runs a Spark Connect server, and clients that have no JVM."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from harness.processes import CONNECT_CLIENT, SPARK_HOME, StartedProcess, environment
from harness.waiting import wait_until
from penstock.dev import free_ports

__all__ = ["ConnectServer"]

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """Spark's own server from the installed PySpark, with two cores. Its event logs are in the folder ``events``."""

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self.address = f"sc://127.0.0.1:{self._port}"
        self._folder = folder
        self.events = folder / "events"
        self.events.mkdir()
        self._started: StartedProcess | None = None

    def start(self, *, runs_functions: bool = False) -> None:
        """Starts the server, and returns when it answers. ``runs_functions``: those of ``foreachBatch``, which are
        clients themselves.
        """
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": self._port,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events,
            "spark.eventLog.compress": "false",
        }
        given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
        submit = [SPARK_HOME / "bin" / "spark-submit", "--class", _SERVER, "--master", "local[2]"]
        variables = environment(*([CONNECT_CLIENT] if runs_functions else []), SPARK_HOME=str(SPARK_HOME))
        started = StartedProcess([*submit, *given, "spark-internal"], self._folder / "log", variables, self._folder)
        self._started = started
        wait_until(self._answers, started.tail, may_come=lambda: started.is_running)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def kill(self) -> None:
        """Kills the server and its Python workers."""
        if self._started is not None and self._started.is_running:
            self._started.kill()

    def client(self, job: str, **arguments: object) -> subprocess.Popen[str]:
        """Starts ``jobs/<job>.py`` as a client, with stderr in its ``stdout``."""
        assert (CONNECT_CLIENT / "pandas").is_dir(), f"nothing in {CONNECT_CLIENT}: scripts/setup makes it"
        command = [sys.executable, "-m", f"harness.jobs.{job}", f"server={self.address}"]
        command += [f"{name}={value}" for name, value in arguments.items()]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(CONNECT_CLIENT),
            cwd=self._folder,
            text=True,
        )
