"""What a connector says about the server that it is developed against; everything else is done here for all of them."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from penstock.dev._jars import JarSet
from penstock.dev._java import java_command
from penstock.errors import BadConfigurationError

__all__ = ["ContainerImage", "DevServer", "ServerFiles", "Progress"]

#: Called with a few words on what is being done.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ContainerImage:
    """An image to run; ``port`` is the one inside that is published on 127.0.0.1."""

    image: str
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerFiles:
    """What a local process is given: a folder of its own, free ports of 127.0.0.1, and its jars, if it has any."""

    folder: Path
    ports: tuple[int, ...]
    jars: Path | None

    def java(
        self,
        main_class: str,
        *arguments: str,
        options: Sequence[str] = (),
        at_least: int = 0,
        at_most: int | None = None,
    ) -> list[str]:
        """The command that runs a class of the jars, by a Java from version ``at_least`` to ``at_most``.

        Raises BadConfigurationError if there is none.

        ``PENSTOCK_DEV_JAVA_OPTIONS`` has more options for the JVM, as a shell reads them; they come last.
        """
        more = shlex.split(os.environ.get("PENSTOCK_DEV_JAVA_OPTIONS", ""))
        return [java_command(at_least, at_most), *options, *more, "-cp", f"{self.jars}/*", main_class, *arguments]

    def keep_version(self, title: str) -> None:
        """Notes whose data is in the folder. Raises BadConfigurationError if it is of another server than ``title``."""
        note = self.folder / "version"
        earlier = note.read_text("utf-8") if note.exists() else title
        if earlier != title:
            raise BadConfigurationError(f"the data in {self.folder} is of {earlier}: start that, or delete the data")
        note.write_text(title, "utf-8")


class DevServer(ABC):
    """One kind of server, such as a Kafka broker with certain settings. Holds no running thing and may be used often.

    A connector returns one from :meth:`penstock.connector.Connector.dev_server`. A server listens on 127.0.0.1 only.
    """

    #: As in ``penstock dev up NAME``; the connector's name.
    name: ClassVar[str]
    #: For people: product and version.
    title: str
    #: Holds the address of a server that the user started.
    environment_variable: ClassVar[str]
    #: What a local process runs on, if it is a Java program.
    jars: JarSet | None = None
    #: How many ports a local process listens on; the first is that of the address.
    port_count: ClassVar[int] = 1
    #: How long a start may take, and how long a server may take to end before it is killed.
    start_seconds: ClassVar[float] = 60
    stop_seconds: ClassVar[float] = 20

    @abstractmethod
    def command(self, place: ServerFiles) -> list[str]:
        """Writes the settings into ``place.folder`` and returns the command that runs a server there.

        Called before every start; what an earlier run left in the folder is to be kept. Raises PenstockError.
        """

    @abstractmethod
    def check(self, address: str, timeout_s: float) -> None:
        """Returns if a server answers at ``address`` (a real answer, not only an open port), and changes nothing there.

        Raises :class:`penstock.errors.RetriableError` that says why not.
        """

    def warm_up(self, address: str) -> None:  # noqa: B027 - a server without slow first requests has nothing to do
        """Lets a server that was just started do what is slow the first time.

        Raises :class:`penstock.errors.RetriableError` to be called again.
        """

    def address(self, port: int) -> str:
        """Returns the address of a server on ``port`` of this machine, as the connector's option takes it."""
        return f"127.0.0.1:{port}"

    def of_version(self, version: str) -> DevServer:
        """Returns the same server in another version. Raises BadConfigurationError if there is none."""
        raise BadConfigurationError(f"{self.title} is the only version that can be started")

    def container(self, port: int) -> ContainerImage | None:
        """Returns the server as a container that will be reached at ``port``; ``None`` if there is no such image."""
        return None

    def usage(self, address: str) -> str:
        """Returns a line that shows how the connector is pointed to the server."""
        return ""
