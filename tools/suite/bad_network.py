"""A TCP proxy with the faults of a bad network. They are switched while connections are open."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, TypeVar

from suite.frames import Frame, Frames

__all__ = ["BadNetwork", "Direction", "Loss", "renamed_addresses"]

Direction = Literal["to server", "to client"]
ResultT = TypeVar("ResultT")

_PIECE_BYTES = 1 << 16
#: With a limit, bytes go out so often in a second.
_PORTIONS = 20
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


@dataclass
class Loss:
    """Requests whose answers are lost: those of :attr:`kind` from the ``nth`` on, ``times`` of them.

    The server gets each of them. Its answer is thrown away, and the connection reset. Or the share ``keep`` of its
    bytes arrives, and then the connection's end.
    """

    kind: str
    nth: int = 1
    times: float = 1
    keep: float = 0.0
    #: How many were met, and how many answers were lost.
    met: int = 0
    lost: int = 0
    happened: threading.Event = field(default_factory=threading.Event)

    def takes(self, kind: str) -> bool:
        """Counts an answer to a request of ``kind``. Returns whether it is lost."""
        if not re.match(self.kind, kind):
            return False
        self.met += 1
        if self.met < self.nth or self.lost >= self.times:
            return False
        self.lost += 1
        self.happened.set()
        return True


class _Connection:
    """One connection of a client, and the proxy's own to the server."""

    def __init__(self, client: asyncio.StreamWriter, frames: Frames | None) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None
        self.frames = frames
        #: The peer is gone, and nobody has said so.
        self.is_dead = False

    def frames_of(self, direction: Direction, data: bytes) -> Iterator[Frame]:
        if self.frames is None:
            yield Frame(data)
        else:
            yield from (self.frames.requests if direction == "to server" else self.frames.answers)(data)

    def end(self) -> None:
        """Both sides get what was written, and then the end."""
        for writer in (self.client, self.server):
            if writer is not None:
                writer.close()

    def reset(self) -> None:
        """Both sides get a reset."""
        for writer in (self.client, self.server):
            if writer is not None:
                sock = writer.get_extra_info("socket")
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()


class _CutError(Exception):
    """A part of an answer was passed on, and no more will be."""


class BadNetwork:
    """Forwards what connects to :attr:`address` to ``target``, both ``host:port``. Any thread; a context manager.

    It is a good network until an attribute or a method says otherwise. What is written to a direction that is held
    arrives once it is let go, as TCP sends again what was dropped. The system accepts and acknowledges for the proxy,
    also where a real network would not: only who waits for an answer can notice.
    """

    def __init__(
        self,
        target: str,
        frames: Callable[[], Frames] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        seed: int = 0,
    ) -> None:
        self.target = target
        #: Seconds that everything takes, in each direction.
        self.latency_s = 0.0
        #: For each connection and direction; 0: no limit.
        self.bytes_per_s = 0
        #: The share of pieces (up to 64 KiB) at which their connection is reset, in their place.
        self.resets = 0.0
        #: The share of answers that are cut somewhere, where the connection ends.
        self.cuts = 0.0
        #: What was done: connections, resets, cuts, bytes by direction, requests by kind.
        self.counts: Counter[str] = Counter()
        self._frames = frames
        self._random = random.Random(seed)
        self._host, self._port = host, port
        self._losses: list[Loss] = []
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bad-network", daemon=True)
        self._flows: dict[Direction, asyncio.Event] = {"to server": asyncio.Event(), "to client": asyncio.Event()}
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{self._host}:{self._port}"

    @property
    def port(self) -> int:
        """The port of :attr:`address`."""
        return self._port

    def __enter__(self) -> BadNetwork:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- faults -------------------------------------------------------------------------------------------------------

    def lose(self, kind: str, nth: int = 1, times: float = 1, keep: float = 0.0) -> Loss:
        """Loses answers, see :class:`Loss`. ``kind`` is a pattern for the beginning of what ``frames`` names."""
        if self._frames is None:
            raise ValueError("the proxy does not know the frames of this protocol")
        loss = Loss(kind, nth, times, keep)
        self._on_loop(lambda: self._losses.append(loss))
        return loss

    def hold(self, direction: Direction) -> None:
        """Nothing arrives in this direction any more, on no connection."""
        self._on_loop(self._flows[direction].clear)

    def half_open(self) -> None:
        """On the connections that are open now, nothing ever arrives again; neither side is told. New ones work."""

        def die() -> None:
            for connection in self._connections:
                connection.is_dead = True

        self._on_loop(die)

    def reset(self) -> None:
        """Resets the connections that are open now."""

        def reset_all() -> None:
            for connection in set(self._connections):
                connection.reset()

        self._on_loop(reset_all)

    def mend(self) -> None:
        """A good network again. What was half open stays so."""
        self.latency_s, self.bytes_per_s, self.resets, self.cuts = 0.0, 0, 0.0, 0.0

        def flow() -> None:
            self._losses.clear()
            for event in self._flows.values():
                event.set()

        self._on_loop(flow)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def _on_loop(self, function: Callable[[], Any]) -> None:
        async def run() -> None:
            function()

        self._run(run())

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        for event in self._flows.values():
            event.set()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in set(self._connections):
            connection.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.counts["connections"] += 1
        connection = _Connection(writer, self._frames() if self._frames else None)
        self._connections.add(connection)
        ways: list[asyncio.Task[None]] = []
        try:
            host, _, port = self.target.rpartition(":")
            from_server, connection.server = await asyncio.open_connection(host, int(port))
            for direction, source, sink in (
                ("to server", reader, connection.server),
                ("to client", from_server, writer),
            ):
                queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
                ways.append(asyncio.ensure_future(self._take(source, queue)))
                ways.append(asyncio.ensure_future(self._give(connection, direction, queue, sink)))  # type: ignore[arg-type]
            await asyncio.gather(*ways)
            connection.end()
        except _CutError:
            connection.end()
        except OSError:
            if connection.is_dead:
                await asyncio.Event().wait()
            connection.reset()
        except asyncio.CancelledError:
            connection.reset()
        finally:
            for way in ways:
                way.cancel()
            self._connections.discard(connection)
            self._tasks.discard(task)

    async def _take(self, source: asyncio.StreamReader, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        while data := await source.read(_PIECE_BYTES):
            await queue.put((self._loop.time() + self.latency_s, data))
        await queue.put((self._loop.time() + self.latency_s, b""))

    async def _give(
        self,
        connection: _Connection,
        direction: Direction,
        queue: asyncio.Queue[tuple[float, bytes]],
        sink: asyncio.StreamWriter,
    ) -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            await self._flows[direction].wait()
            if connection.is_dead:
                await asyncio.Event().wait()
            if not data:
                sink.write_eof()
                return
            if self.resets and self._random.random() < self.resets:
                self.counts["resets"] += 1
                raise ConnectionResetError
            for frame in connection.frames_of(direction, data):
                await self._pass(frame, direction, sink)

    async def _pass(self, frame: Frame, direction: Direction, sink: asyncio.StreamWriter) -> None:
        data, loss = frame.data, None
        if direction == "to server" and frame.kind:
            self.counts[frame.kind] += 1
        if direction == "to client" and frame.kind:
            loss = next((one for one in self._losses if one.takes(frame.kind)), None)
            if loss is None and self.cuts and self._random.random() < self.cuts:
                self.counts["cuts"] += 1
                loss = Loss("", keep=self._random.random())
        if loss is not None:
            data = data[: int(len(data) * loss.keep)]
        self.counts[direction] += len(data)
        while data:
            size = max(1, self.bytes_per_s // _PORTIONS) if self.bytes_per_s else len(data)
            if self.bytes_per_s:
                await asyncio.sleep(min(size, len(data)) / self.bytes_per_s)
            sink.write(data[:size])
            await sink.drain()
            data = data[size:]
        if loss is not None:
            raise _CutError if loss.keep else ConnectionResetError


@contextmanager
def renamed_addresses(addresses: dict[str, str]) -> Iterator[dict[str, str]]:
    """In this process, the names in ``addresses`` lead to their addresses. Change the dictionary to move a name.

    For clients that ask Python (``socket.getaddrinfo``), not for those that ask the C library.
    """
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return real(addresses.get(name, host), *arguments, **named)

    socket.getaddrinfo = getaddrinfo
    try:
        yield addresses
    finally:
        socket.getaddrinfo = real
