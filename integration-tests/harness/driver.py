"""One Spark driver as a process."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.faults import FaultPoints
from harness.processes import StartedProcess, environment, kill
from harness.waiting import wait_until

__all__ = ["Driver"]


class Driver(StartedProcess):
    """Runs ``jobs/<job>.py`` with ``key=value`` arguments in ``folder``.

    A ``fault`` ends or stops it, or a task of it, at a chosen call (:class:`~harness.faults.FaultPoints`).
    """

    def __init__(
        self, folder: Path, job: str, arguments: dict[str, object], fault: str = "", scope: str = "", action: str = ""
    ) -> None:
        own = folder / f"driver-{time.time_ns()}"
        own.mkdir()
        self._faults = FaultPoints(own, fault, scope, action)
        super().__init__(
            [sys.executable, "-m", f"jobs.{job}", *(f"{name}={value}" for name, value in arguments.items())],
            own / "log",
            environment(SPARK_SUBMIT_OPTS=_jvm_options(), **self._faults.variables),
            folder,
        )

    # --- its end ------------------------------------------------------------------------------------------------------

    def wait(self, timeout: float = 420) -> int:
        """The exit status; negative if a signal ended it."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end in {timeout} s:\n{self.tail()}") from None

    def wait_for_success(self, timeout: float = 420) -> None:
        """Waits for the end, which has to be a good one."""
        assert self.wait(timeout) == 0, self.tail()

    def wait_for_failure(self, reason: str = "", timeout: float = 420) -> None:
        """Waits for the end, which has to be a failure with ``reason`` in what it printed."""
        assert self.wait(timeout) != 0, self.tail()
        assert reason in self.output(), self.tail()

    def wait_for_kill(self) -> None:
        """Waits for the end, to which the fault point has to have brought it."""
        status = self.wait()
        assert self.was_hit(), f"the run never came to {self._faults.points}:\n{self.tail()}"
        assert status == -signal.SIGKILL, f"status {status}:\n{self.tail()}"

    def kill(self) -> None:
        """SIGKILL to driver and JVM, and first to what a fault point has stopped: the end of its parent would wake it
        up.
        """
        if self._faults.stops:
            self.kill_stopped()
        super().kill()

    def close(self) -> None:
        """Kills it, if it runs, and lets go of the pipe."""
        if self.is_running:
            self.kill()
        self._faults.close()

    def last_words(self) -> str:
        """The last line on the screen (jobs with ``log=OFF``), but for the bar of a stage that goes on in the
        background; all of it before Python 3.11, which knows no notes.
        """
        lines = [line for line in self.output().splitlines() if line.strip() and not line.startswith("[Stage ")]
        return "\n".join(lines[-1:] if sys.version_info >= (3, 11) else lines)

    # --- its fault points ---------------------------------------------------------------------------------------------

    def was_hit(self) -> bool:
        """Whether all fault points were reached."""
        return self._faults.all_hit()

    def wait_for_hits(self, number: int = 1, timeout: float = 240) -> None:
        """Returns when so many processes have reached fault points."""
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
        """SIGSTOP to driver and JVM."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a stopped driver go on, and what fault points have stopped."""
        os.killpg(self.pid, signal.SIGCONT)
        for _, pid in self._faults.look():
            # A process reports its hit just before it stops itself: a SIGCONT in between would be lost.
            wait_until(lambda pid=pid: _is_stopped(pid), lambda pid=pid: f"process {pid} was hit and does not stop")
            os.kill(pid, signal.SIGCONT)

    def kill_stopped(self) -> None:
        """SIGKILL to the processes that fault points have stopped."""
        for _, pid in self._faults.look():
            kill(pid)


def _jvm_options() -> str:
    """For ``SPARK_SUBMIT_OPTS``: how to start quickly, for executors too.

    Batches here have few rows, for which compiling code takes longer than interpreting the plan.
    """
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    without_compiling = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
    return f'{given} {without_compiling} "-Dspark.executor.extraJavaOptions={given}"'


def _is_stopped(pid: int) -> bool:
    """By a signal; or gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ"
    except (FileNotFoundError, ProcessLookupError):
        return True
