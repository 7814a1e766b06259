"""One connection to a segment store."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct

from penstock_pravega.client._endpoint import certificate_refused
from penstock_pravega.client._wire import HELLO, KEEP_ALIVE, OLDEST_VERSION, VERSION, Payload, Refused, hello, refusal

__all__ = ["Connection"]

_LARGEST_MESSAGE = 0x00FFFFFF


class Connection:
    """Messages over TCP or TLS. One thread uses it; :meth:`close` may be called from another.

    Everything raises :class:`OSError` if the other side is gone or silent for ``timeout_s``, BadConfigurationError for
    a certificate that is not trusted. A connection that failed is to be closed and not used again: half a message may
    be in flight.
    """

    def __init__(self, host: str, port: int, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        self.address = (host, port)
        self.closed = False
        plain = socket.create_connection((host, port), timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
            self.send(hello())
            kind, payload = self.receive()
            if kind != HELLO:
                raise refusal(kind, payload)
            newest, oldest = payload.take("ii")
            if newest < OLDEST_VERSION or oldest > VERSION:
                raise Refused(
                    f"the segment store at {host}:{port} speaks versions {oldest} to {newest} of the protocol"
                )
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise certificate_refused(f"the segment store at {host}:{port}", error.verify_message) from None
        except BaseException:
            plain.close()
            raise

    def send(self, buffers: list[bytes | memoryview]) -> None:
        """Sends a message, whole."""
        # One write for the small parts around a large one: each would be a packet.
        self._socket.sendall(b"".join(buffers))

    def receive(self) -> tuple[int, Payload]:
        """Returns the next message that is not a keep-alive."""
        kind, length = self.receive_head()
        return kind, Payload(self.receive_bytes(length))

    def receive_head(self) -> tuple[int, int]:
        """Type and length of the next message; its payload is to be received next."""
        while True:
            kind, length = struct.unpack(">ii", self.receive_bytes(8))
            if not 0 <= length <= _LARGEST_MESSAGE:
                raise ConnectionError(f"{self.address[0]}:{self.address[1]} does not speak Pravega's protocol")
            if kind != KEEP_ALIVE:
                return kind, length
            self.receive_bytes(length)

    def receive_bytes(self, length: int) -> bytearray:
        """Receives that many bytes."""
        data = bytearray(length)
        self.receive_into(memoryview(data))
        return data

    def receive_into(self, target: memoryview) -> None:
        """Fills ``target``."""
        while len(target):
            received = self._socket.recv_into(target)
            if not received:
                raise ConnectionError(f"the segment store at {self.address[0]}:{self.address[1]} closed the connection")
            target = target[received:]

    def close(self) -> None:
        """Ends it; wakes up a thread that waits for an answer."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()
