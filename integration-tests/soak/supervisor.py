"""A service manager for one driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.driver import Driver
from soak.findings import Findings

_ERROR = re.compile(r"^(?:[\w.]*\.)?(\w*(?:Error|Exception)): (.*)", re.MULTILINE)
#: The driver fails so often in a row, with the broker there and nothing killed: it does not recover.
_MOST_FAILURES = 5


class Supervisor:
    """Keeps one driver running: what ends is started again, as any service manager would."""

    def __init__(self, folder: Path, arguments: Mapping[str, object], findings: Findings) -> None:
        self._folder = folder
        self._arguments = arguments
        self._findings = findings
        self._failures = 0
        self.starts = 0
        self.reasons: dict[str, int] = {}
        self._start()

    def _start(self) -> None:
        self.starts += 1
        self.driver = Driver(self._folder, "copy_kafka", self._arguments)

    def look(self) -> bool:
        """Starts the driver again if it has ended. Whether it had."""
        if self.driver.is_running:
            return False
        self._failures += 1
        errors = _ERROR.findall(self.driver.output())
        name, text = next(
            (e for e in reversed(errors) if e[0] not in ("Py4JJavaError", "StreamingQueryException")), ("?", "")
        )
        self.reasons[name] = self.reasons.get(name, 0) + 1
        if name in ("DataLostError", "BadConfigurationError", "?") or self._failures > _MOST_FAILURES:
            self._findings.add(f"the driver ended and should not: {name}: {text[:300]} ({self.driver.log})")
        self.kill()
        return True

    def works(self) -> None:
        """Records come."""
        self._failures = 0

    def kill(self) -> None:
        """SIGKILL to driver and JVM; a new one is started."""
        self.driver.kill()
        self._start()

    def stop(self) -> None:
        self.driver.kill()
