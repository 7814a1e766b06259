"""Processes of their own for what an author wrote, as Spark has: real ones, that can be killed.

A process that was forked when pytest had collected the tests, and had run none, waits for work. For each piece of work
it forks another one: so modules are imported, and nothing else has happened. A counter in a module starts again, as it
does in every worker of Spark, and nothing that an earlier case left open is there. Each has a working directory, and a
folder for temporary files, of its own: as on another machine (:mod:`penstock.testing._machines`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import shutil
import signal
import socket
import struct
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from penstock.testing._machines import move
from penstock.testing._time_limit import call_limit_s, time_limit

__all__ = ["Killed", "OwnProcess", "Processes", "begin", "end", "processes"]

_LENGTH = struct.Struct("!Q")
_TIMEOUT_S, _LONGEST_S = 60.0, 3600.0


class Killed(Exception):
    """The process ended without an answer: it was killed, or has ended itself."""


class OwnProcess:
    """One that runs. :meth:`result` is to be called once."""

    def __init__(self, channel: socket.socket, stacks: str, folder: str) -> None:
        self._channel = channel
        self._folder = folder
        self._stacks = stacks
        self.pid: int = _received(channel)

    def result(self, timeout_s: float = _TIMEOUT_S) -> Any:
        """Returns what the work returned, or raises what it raised. Raises Killed if it has ended without either.

        What does not end in time is killed, and is an AssertionError that shows where it was.
        """
        self._channel.settimeout(timeout_s)
        try:
            is_error, answer = _received(self._channel)
        except EOFError:
            raise Killed from None
        except TimeoutError:
            raise AssertionError(f"it did not end within {timeout_s:.0f} s. It was here:\n{self._stack()}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._channel.close()
            os.unlink(self._stacks)
            shutil.rmtree(self._folder, ignore_errors=True)
        if is_error:
            raise answer
        return answer

    def _stack(self) -> str:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
            self._channel.settimeout(1.0)
            with contextlib.suppress(OSError, EOFError):
                _received(self._channel)  # it has a moment to write its stack
        with open(self._stacks, encoding="utf-8") as file:
            return file.read()


class Processes:
    """Starts processes. Fork it before anything has happened that they are not to know of. One thread uses it."""

    def __init__(self) -> None:
        self._control, other = socket.socketpair()
        self._parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            self._control.close()
            _serve(other)
        other.close()

    def start(self, work: Callable[..., Any], *arguments: Any) -> OwnProcess:
        """Starts ``work(*arguments)`` in a process of its own. Both are pickled."""
        folder = tempfile.mkdtemp(prefix="penstock-machine-")
        sent = pickle.dumps((folder, call_limit_s(), work, arguments))
        ours, theirs = socket.socketpair()
        number, stacks = tempfile.mkstemp(prefix="penstock-stacks-")
        socket.send_fds(self._control, [b"x"], [theirs.fileno(), number])
        theirs.close()
        os.close(number)
        _send(ours, sent)
        return OwnProcess(ours, stacks, folder)

    def run(self, work: Callable[..., Any], *arguments: Any, timeout_s: float = _TIMEOUT_S) -> Any:
        """Starts it and returns its result; see :meth:`OwnProcess.result`."""
        return self.start(work, *arguments).result(timeout_s)

    def close(self) -> None:
        """Ends the process that waits. Does nothing in a fork of the one that made it."""
        if os.getpid() == self._parent:
            self._control.close()
            os.waitpid(self.pid, 0)


def _serve(control: socket.socket) -> NoReturn:
    """Forks a process for each piece of work, until there is none any more."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their answers say how they ended
        while True:
            message, numbers, _, _ = socket.recv_fds(control, 1, 2)
            if not message:
                break
            channel = socket.socket(fileno=numbers[0])
            if not os.fork():
                control.close()
                _work(channel, numbers[1])
            channel.close()
            os.close(numbers[1])
    finally:
        os._exit(0)


def _work(channel: socket.socket, stacks: int) -> NoReturn:
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        _send(channel, pickle.dumps(os.getpid()))
        try:
            folder, call_s, work, arguments = _received(channel)
            move(folder)
            with time_limit(_LONGEST_S, "a process of its own", call_s):
                answer = _pickled((False, work(*arguments)))
        except BaseException as error:
            answer = _pickled((True, error))
        _send(channel, answer)
    finally:
        os._exit(0)  # nothing of what pytest would do at its end


def _pickled(answer: tuple[bool, Any]) -> bytes:
    """An error that can't be pickled, or made again, is sent as its traceback."""
    try:
        data = pickle.dumps(answer)
        pickle.loads(data)
    except Exception:
        text = "".join(traceback.format_exception(answer[1])) if answer[0] else f"{type(answer[1]).__name__}"
        data = pickle.dumps((True, RuntimeError(f"can't be sent from a process to another: {text}")))
    return data


def _send(channel: socket.socket, data: bytes) -> None:
    channel.sendall(_LENGTH.pack(len(data)) + data)


def _received(channel: socket.socket) -> Any:
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    return pickle.loads(_exactly(channel, length))


def _exactly(channel: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        try:
            part = channel.recv(min(length, 1 << 20))
        except ConnectionResetError:
            part = b""
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


_begun: list[Processes] = []


def processes() -> Processes:
    """Returns those of this run: forked by :func:`begin` before the first test, or now."""
    if not _begun:
        begin()
    return _begun[-1]


def begin() -> None:
    """Forks the process that waits for work."""
    _begun.append(Processes())


def end() -> None:
    """Ends the process that waits for work."""
    if _begun:
        _begun.pop().close()
