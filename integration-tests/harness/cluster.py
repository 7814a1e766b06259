"""Runs a Spark standalone cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from harness import checkpoint
from harness.driver import Driver
from harness.processes import SPARK_HOME, StartedProcess, environment, kill, running
from harness.waiting import wait_until
from penstock.dev import free_ports

__all__ = ["SPECULATION", "Cluster"]

#: Settings with which Spark soon starts a second attempt of a task that sleeps.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "200ms",
}


class Cluster:
    """A master and two workers with one core each, from the installed PySpark. A context manager.

    The workers have different host names (both are 127.0.0.1), because Spark starts a speculative attempt only on
    another host.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[StartedProcess] = []
        (port,) = free_ports(1)
        self.url = f"spark://127.0.0.1:{port}"
        try:
            self._start("master.Master", "--host", "127.0.0.1", "--port", port)
            for host in ("127.0.0.1", "localhost"):
                place = folder / f"work-{host}"
                self._start(
                    "worker.Worker", "--host", host, "--cores", 1, "--memory", "1g", "--work-dir", place, self.url
                )
            wait_until(lambda: self._log().count("Successfully registered with master") == 2, self._log, timeout=90)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, role: str, *arguments: object) -> None:
        command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{role}", "--webui-port", 0, *arguments]
        options = os.environ.get("SPARK_SUBMIT_OPTS", "")
        variables = environment(SPARK_HOME=str(SPARK_HOME), SPARK_DAEMON_JAVA_OPTS=options)
        log = self._folder / f"spark-{len(self._started)}.log"
        self._started.append(StartedProcess(command, log, variables, self._folder))

    def _log(self) -> str:
        return "".join(one.output() for one in self._started)

    def executors(self) -> list[int]:
        """Returns the process ids of the running executors."""
        groups = {one.pid for one in self._started}
        return [one.pid for one in running() if one.group in groups and "CoarseGrainedExecutorBackend" in one.command]

    def kill_executors(self, run: Driver, directory: Path, times: int = 2) -> None:
        """Kills an executor ``times`` times while ``run`` works, with some batches between the kills.

        ``directory`` is the run's checkpoint.
        """
        for batches in range(0, 2 * times, 2):
            self.kill_executor(run, lambda more=batches: checkpoint.committed(directory) > more)  # type: ignore[misc]

    def kill_executor(self, run: Driver, is_time: Callable[[], bool]) -> None:
        """Kills an executor while ``run`` works, as soon as ``is_time()`` and there is one."""
        victims: list[int] = []

        def are_there() -> bool:
            victims[:] = self.executors() if is_time() else []
            return bool(victims)

        wait_until(are_there, run.tail, timeout=200, pause=0.02, may_come=lambda: run.is_running)
        kill(victims[0])

    def stop(self) -> None:
        for one in self._started:
            one.kill()
