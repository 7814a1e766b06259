"""Runs a Spark driver as a process."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from harness.faults import FaultPoints
from harness.processes import CONNECT_CLIENT, SPARK_HOME, StartedProcess, environment, kill
from harness.waiting import wait_until

__all__ = ["Driver", "PipelinesRun"]


class Driver(StartedProcess):
    """Runs ``jobs/<job>.py`` in ``folder``, with ``key=value`` arguments.

    For ``fault``, ``scope`` and ``action`` see :class:`~harness.faults.FaultPoints`. ``python`` runs the driver and its
    tasks; ``variables`` are environment variables besides.
    """

    #: Folders of packages that only this kind of driver needs.
    _packages: Sequence[Path] = ()
    #: Environment variables that only this kind of driver needs.
    _variables: Mapping[str, str] = MappingProxyType({})
    #: Options of its JVM.
    _jvm = ""

    def __init__(
        self,
        folder: Path,
        job: str,
        arguments: Mapping[str, object],
        fault: str = "",
        scope: str = "",
        action: str = "",
        *,
        python: str = sys.executable,
        **variables: str,
    ) -> None:
        own = folder / f"driver-{time.time_ns()}"
        own.mkdir()
        self._faults = FaultPoints(own, fault, scope, action)
        super().__init__(
            self._command(python, job, arguments),
            own / "log",
            environment(
                *self._packages,
                python=python,
                SPARK_SUBMIT_OPTS=f"{_jvm_options()} {self._jvm}",
                **self._variables,
                **self._faults.variables,
                **variables,
            ),
            folder,
        )

    def _command(self, python: str, job: str, arguments: Mapping[str, object]) -> list[object]:
        given = (f"{name}={value}" for name, value in arguments.items())
        return [python, "-m", f"harness.jobs.{job}", *given]

    # --- its end ------------------------------------------------------------------------------------------------------

    def wait(self, timeout: float = 420) -> int:
        """Returns the exit status, which is negative after a signal."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end in {timeout} s:\n{self.tail()}") from None

    def wait_for_success(self, timeout: float = 420) -> None:
        """Waits for the end. Raises AssertionError unless the status is 0."""
        assert self.wait(timeout) == 0, self.tail()

    def wait_for_failure(self, reason: str = "", timeout: float = 420) -> None:
        """Waits for the end. Raises AssertionError unless the driver fails, with ``reason`` in its output."""
        assert self.wait(timeout) != 0, self.tail()
        assert reason in self.output(), self.tail()

    def wait_for_kill(self) -> None:
        """Waits for the end. Raises AssertionError unless the fault points have killed the driver."""
        status = self.wait()
        assert self.was_hit(), f"the run never came to {self._faults.points}:\n{self.tail()}"
        assert status == -signal.SIGKILL, f"status {status}:\n{self.tail()}"

    def kill(self) -> None:
        """Sends SIGKILL to driver and JVM.

        It first kills what a fault point has stopped: otherwise the end of its parent would wake that process up.
        """
        if self._faults.stops:
            self.kill_stopped()
        super().kill()

    def close(self) -> None:
        """Kills the driver if it runs, and closes the pipe."""
        if self.is_running:
            self.kill()
        self._faults.close()

    def last_words(self) -> str:
        """Returns the last line that a user sees (of a job with ``log=OFF``), without the progress bars of stages.

        Before Python 3.11, which has no notes, it returns the whole output.
        """
        lines = [line for line in self.output().splitlines() if line.strip() and not line.startswith("[Stage ")]
        return "\n".join(lines[-1:] if sys.version_info >= (3, 11) else lines)

    # --- its fault points ---------------------------------------------------------------------------------------------

    def was_hit(self) -> bool:
        """Returns whether the driver has reached all its fault points."""
        return self._faults.all_hit()

    def wait_for_hits(self, number: int = 1, timeout: float = 240) -> None:
        """Waits until that many processes have reached fault points."""
        deadline = time.monotonic() + timeout
        end = os.pidfd_open(self.pid)
        try:
            with selectors.DefaultSelector() as selector:  # select() takes no file above the 1,024th
                for file in (self._faults.fileno(), end):
                    selector.register(file, selectors.EVENT_READ)
                while len(hits := self._faults.look()) < number:
                    ready = [key.fd for key, _ in selector.select(max(0.0, deadline - time.monotonic()))]
                    assert self._faults.fileno() in ready, f"only {len(hits)} of {number} hits\n{self.tail()}"
        finally:
            os.close(end)

    def stop(self) -> None:
        """Sends SIGSTOP to driver and JVM."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Sends SIGCONT to driver and JVM, and to the processes that fault points have stopped."""
        os.killpg(self.pid, signal.SIGCONT)
        for _, pid in self._faults.look():
            # A process reports its hit just before it stops itself. A SIGCONT in between would be lost.
            wait_until(partial(_is_stopped, pid), lambda: f"a process was hit and does not stop: {self._faults.hits}")
            os.kill(pid, signal.SIGCONT)

    def kill_stopped(self) -> None:
        """Sends SIGKILL to the processes that fault points have stopped."""
        for _, pid in self._faults.look():
            kill(pid)


class PipelinesRun(Driver):
    """Runs Spark's command ``spark-pipelines`` in ``folder``: ``job`` is ``run`` or ``dry-run``, ``arguments`` its
    flags, and the settings of Spark (``spark.…``). Its server has a fixed port, so one runs at a time.
    """

    _packages = (CONNECT_CLIENT,)
    _variables = MappingProxyType({"SPARK_HOME": str(SPARK_HOME)})
    _jvm = "-Dspark.connect.grpc.binding.address=127.0.0.1"

    def _command(self, python: str, job: str, arguments: Mapping[str, object]) -> list[object]:
        settings = {name: value for name, value in arguments.items() if name.startswith("spark.")}
        flags = [part for name, value in arguments.items() if name not in settings for part in (name, value) if part]
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        return [SPARK_HOME / "bin" / "spark-pipelines", job, *flags, *given]


def _jvm_options() -> str:
    """Returns the value of ``SPARK_SUBMIT_OPTS``: options for a quick start of driver and executors.

    Batches here have few rows: Spark takes longer to compile code than to interpret the plan.
    """
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    without_compiling = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
    return f'{given} {without_compiling} "-Dspark.executor.extraJavaOptions={given}"'


def _is_stopped(pid: int) -> bool:
    """Returns whether a signal has stopped the process, or it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ"
    except (FileNotFoundError, ProcessLookupError):
        return True
