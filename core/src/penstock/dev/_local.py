"""A server as a process of this machine, in a folder of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from penstock.dev._contracts import DevServer, Progress, ServerFiles
from penstock.dev._jars import fetch_jars
from penstock.dev._ports import free_ports
from penstock.dev._process import ProcessIdentity, identify, is_alive, kill, terminate
from penstock.errors import BadConfigurationError, FatalError, RetriableError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LocalServer", "await_answer"]

_POLL_SECONDS = 0.05
_CHECK_SECONDS = 5.0
_LOG_LINES = 15
#: Processes that are to outlive us: kept, because Python complains of a running child that nothing refers to any more.
_outliving: list[subprocess.Popen[bytes]] = []


class LocalServer:
    """A private server: its data and its log in ``folder``, on ports of its own that stay the same over restarts.

    For tests that break servers: :meth:`kill` and :meth:`stop` keep the data, :meth:`start` continues with it. It is a
    child of this process, and only leaving the ``with`` block ends it, by killing it; the folder is the
    caller's to delete. With ``outlive`` it gets a session of its own, so that it survives a closed terminal, and is
    ended with its ``identity`` by anyone.

    Raises BadConfigurationError if Maven, Java or a port is missing, FatalError with the end of the server's log if it
    does not start. Used by one thread.
    """

    def __init__(
        self, server: DevServer, folder: Path | str, *, ports: tuple[int, ...] | None = None, outlive: bool = False
    ) -> None:
        self.server = server
        self.folder = Path(folder).absolute()
        self.log = self.folder / "server.log"
        self.ports = ports or free_ports(server.port_count)
        self.identity: ProcessIdentity | None = None
        self._outlive = outlive
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """As the connector's option takes it; the same over restarts."""
        return self.server.address(self.ports[0])

    @property
    def pid(self) -> int:
        """Of the process that runs, or ran last. Raises FatalError if none was started yet."""
        if self.identity is None:
            raise FatalError(f"{self.server.title} in {self.folder} was not started yet")
        return self.identity.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self.identity is not None and is_alive(self.identity)

    def start(self, progress: Progress | None = None) -> Self:
        """Starts it and returns when it answers and is warm."""
        self.launch(progress)
        self.await_ready()
        return self

    def launch(self, progress: Progress | None = None) -> ProcessIdentity:
        """The first half of :meth:`start`: the process is there, but does not answer yet. Fetches missing jars."""
        if self.running:
            raise FatalError(f"{self.server.title} in {self.folder} runs already (process {self.pid})")
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self._command(progress)
        with self.log.open("ab") as log:
            self._process = _spawn(command, self.folder, log, self._outlive)
        self.identity = identify(self._process.pid) or ProcessIdentity(self._process.pid, "ended at once")
        if self._outlive:
            _outliving.append(self._process)
        return self.identity

    def _command(self, progress: Progress | None) -> list[str]:
        jars = self.server.jars
        try:
            folder = None if jars is None else fetch_jars(jars, progress)
            return self.server.command(ServerFiles(self.folder, self.ports, folder))
        except BadConfigurationError as error:
            raise BadConfigurationError(
                f"{self.server.title} can't be started here: {error}. Or start a server in another way, and set "
                f"{self.server.environment_variable} to its address"
            ) from error

    def await_ready(self) -> None:
        """The second half. Kills the process if it does not get that far."""
        try:
            await_answer(self.server, self.address, self._complain_if_ended)
        except FatalError as error:
            # Of a process that has ended it is there already.
            words = f"; {self._last_words()}" if self.running else ""
            self.kill()
            raise FatalError(f"{error}{words}") from error
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ends it in good order (SIGTERM; SIGKILL if that takes too long). Nothing happens if it does not run."""
        if self.identity is not None:
            terminate(self.identity, self.server.stop_seconds)
            self._reap()

    def kill(self) -> None:
        """Ends it as a crash would (SIGKILL); returns when it is gone."""
        if self.identity is not None:
            kill(self.identity)
            self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _complain_if_ended(self) -> None:
        if not self.running:
            raise FatalError(f"{self.server.title} ended while it was starting; {self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
        return f"the end of its log, {self.log}: {' | '.join(lines)}"

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _spawn(command: list[str], folder: Path, log: IO[bytes], outlive: bool) -> subprocess.Popen[bytes]:
    # A private server stays in our session on purpose: what ends the whole test run (Ctrl-C, timeout) ends it as well.
    return subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=outlive
    )


def await_answer(server: DevServer, address: str, still_there: Callable[[], None] | None = None) -> None:
    """Waits until the server at ``address`` answers and is warm.

    ``still_there`` is called between attempts and raises if there is no hope. Raises FatalError after the server's
    ``start_seconds``.
    """
    deadline = time.monotonic() + server.start_seconds
    steps: list[Callable[[], None]] = [
        lambda: server.check(address, _CHECK_SECONDS),
        lambda: server.warm_up(address),
    ]
    for step in steps:
        while True:
            try:
                step()
                break
            except RetriableError as error:
                if still_there is not None:
                    still_there()
                if time.monotonic() > deadline:
                    raise FatalError(
                        f"{server.title} does not answer at {address} in {server.start_seconds:.0f} s: {error}"
                    ) from error
            time.sleep(_POLL_SECONDS)
