"""Keeps a driver running."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.driver import Driver
from soak.findings import Findings

_ERROR = re.compile(r"^(?:[\w.]*\.)?(\w*(?:Error|Exception)): (.*)", re.MULTILINE)
#: Whatever these are about, no error of theirs passes by itself.
_NEVER = ("DataLostError", "BadConfigurationError", "BadDataError", "?")
#: A driver that fails more often in a row, although the servers run, does not recover.
_MOST_FAILURES = 5


class Supervisor:
    """Starts the driver of ``jobs/<job>.py`` again whenever it ends, as a service manager would.

    With ``may_end`` false it is a violation if the driver ends by itself.
    """

    def __init__(
        self,
        folder: Path,
        job: str,
        arguments: Mapping[str, object],
        findings: Findings,
        *,
        may_end: bool = True,
    ) -> None:
        self._folder = folder
        self._job = job
        self._arguments = arguments
        self._findings = findings
        self._may_end = may_end
        self._failures = 0
        self.starts = 0
        self.reasons: dict[str, int] = {}
        self._start()

    def _start(self) -> None:
        self.starts += 1
        self.driver = Driver(self._folder, self._job, self._arguments)

    def look(self) -> bool:
        """Starts the driver again if it has ended. Returns whether it had."""
        if self.driver.is_running:
            return False
        self._failures += 1
        errors = _ERROR.findall(self.driver.output())
        name, text = next(
            (e for e in reversed(errors) if e[0] not in ("Py4JJavaError", "StreamingQueryException")), ("?", "")
        )
        self.reasons[name] = self.reasons.get(name, 0) + 1
        if not self._may_end or name in _NEVER or self._failures > _MOST_FAILURES:
            self._findings.add(f"the driver ended and should not: {name}: {text[:300]} ({self.driver.log})")
        self.kill()
        return True

    def works(self) -> None:
        """Learns that records arrive."""
        self._failures = 0

    def kill(self) -> None:
        """Kills driver and JVM, and starts a new driver."""
        self.driver.kill()
        self._start()

    def stop(self) -> None:
        self.driver.kill()
