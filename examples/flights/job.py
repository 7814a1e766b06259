"""The job, as an operator has it: ``penstock run pipeline.yaml`` in a process group of its own, which can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ended:
    """A run is over. ``code`` is negative after a signal."""

    code: int


class Job:
    """One run of the pipeline. What it reports comes out of :meth:`next_event`."""

    def __init__(self, pipeline: Path, log: Path) -> None:
        self._events: queue.Queue[dict[str, Any] | Ended] = queue.Queue()
        command = [str(Path(sys.executable).with_name("penstock")), "run", "--json", str(pipeline)]
        # A JVM that lives for seconds spends a third of them on optimizing code that it won't run again.
        environment = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"} | os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
            )
        threading.Thread(target=self._listen, name="job-output", daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._events.put(json.loads(line))
            except ValueError:  # cut off in the middle by SIGKILL
                continue
        self._events.put(Ended(self._process.wait()))

    def next_event(self, timeout_seconds: float) -> dict[str, Any] | Ended | None:
        """A line of ``penstock run --json``, the end of the run, or ``None`` if nothing came in time."""
        try:
            return self._events.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None

    def kill(self) -> bool:
        """SIGKILL to the command and its JVM at once, so nobody says goodbye. Returns whether this ended the run."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait() == -signal.SIGKILL
