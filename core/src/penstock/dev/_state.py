"""What ``penstock dev`` remembers of a server that outlives the command: one small JSON file for each."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from penstock.dev._container import container_is_running
from penstock.dev._paths import dev_home
from penstock.dev._process import ProcessIdentity, is_alive, resident_bytes
from penstock.dev._ways import Way
from penstock.errors import BadConfigurationError

__all__ = ["Record", "StateFolder", "state_folders"]

_VERSION = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FILE = "server.json"


@dataclass(frozen=True)
class Record:
    """A server that was started. ``since`` is ISO 8601 in UTC; either ``process`` or ``container`` (its id) is set."""

    name: str
    title: str
    address: str
    port: int
    way: Way
    since: str
    stop_seconds: float
    process: ProcessIdentity | None = None
    container: str | None = None

    def is_running(self) -> bool:
        """Returns whether this very process or container is there. Raises FatalError if a container engine does not
        say.
        """
        if self.process is not None:
            return is_alive(self.process)
        return self.container is not None and container_is_running(self.container)

    def memory_bytes(self) -> int | None:
        """Returns what a process holds of memory now; unknown for a container."""
        return None if self.process is None else resident_bytes(self.process)


class StateFolder:
    """Record and data of the server ``name``. Raises BadConfigurationError for what can't be the name of one."""

    def __init__(self, name: str) -> None:
        if _NAME.fullmatch(name) is None:
            raise BadConfigurationError(f"'{name}' is not the name of a connector")
        self._folder = dev_home() / name
        self._file = self._folder / _FILE
        #: A name that users are unlikely to choose: it is deleted with all that is in it.
        self.data = self._folder / "penstock-dev-data"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time, over all processes of the machine; waits for its turn."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def load(self) -> Record | None:
        """Returns what was stored, if anything. Raises BadConfigurationError if it can't be understood."""
        try:
            stored = json.loads(self._file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise BadConfigurationError(
                f"{self._file} is damaged ({error}): end the server by hand, delete it"
            ) from error
        version = stored.pop("version", None)
        if version != _VERSION:
            raise BadConfigurationError(
                f"{self._file} has version {version}, known is {_VERSION}: use another penstock"
            )
        process = stored.pop("process")
        return Record(**stored, process=process and ProcessIdentity(**process))

    def store(self, record: Record) -> None:
        """Keeps the record, all of it or nothing."""
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({"version": _VERSION, **asdict(record)}, indent=2) + "\n", "utf-8")
        os.replace(new, self._file)

    def forget(self) -> None:
        """Deletes the record, not the data."""
        self._file.unlink(missing_ok=True)


def state_folders() -> list[StateFolder]:
    """Returns those with a record, by name."""
    return [StateFolder(file.parent.name) for file in sorted(dev_home().glob(f"*/{_FILE}"))]
