"""A connection that one thread asks and waits on: a large answer is received by one system call, into its own memory.

kafka-python's connections, which share a thread, receive in pieces of 4 KB and copy an answer four times before it is
one. That is nothing compared with a request to write or to commit, and most of the time of reading.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError, for_code
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from penstock_kafka.client.broker._kafka_python import sasl_mechanism

__all__ = ["BrokerConnection"]

#: More than any answer that is asked for, with a batch in it that is larger than what was asked for.
_LARGEST_ANSWER = 1 << 30
#: Of the time for which the broker will take requests without new credentials (KIP-368).
_USABLE_SHARE = 0.85
_CLIENT_ID = "penstock"


class BrokerConnection:
    """A connection to one broker, authenticated. Belongs to one thread, except for :meth:`interrupt`.

    ``arguments`` as kafka-python takes them. Every method may raise KafkaError or OSError; the connection is of no use
    then. ``silence_s``: after that long without a byte :meth:`ask` calls what it was given, and waits on.
    """

    def __init__(self, arguments: Mapping[str, Any], request_timeout_s: float, silence_s: float | None = None) -> None:
        self._arguments = arguments
        self._timeout_s = request_timeout_s
        self._silence_s = min(request_timeout_s, silence_s or request_timeout_s)
        self._client_id = arguments.get("client_id", _CLIENT_ID)
        self._socket: socket.socket | None = None
        self._flags = 0
        self._number = 0
        self._stale_at = float("inf")
        #: Written by any thread, read by the connection's own: once true it stays so.
        self._is_interrupted = False
        #: Whether it has answered anything but who we are.
        self.is_proven = False
        #: The newest version of each kind of request that the broker takes. Asked once.
        self._newest: dict[int, int] = {}

    @property
    def is_stale(self) -> bool:
        """Whether the broker will soon want new credentials: a new connection brings them."""
        return time.monotonic() > self._stale_at

    def connect(self, host: str, port: int) -> None:
        """Connects and authenticates."""
        setup_ms = self._arguments.get("socket_connection_setup_timeout_ms", 10_000)
        plain = socket.create_connection((host, port), timeout=setup_ms / 1000)
        self._socket = plain
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if buffer_bytes := self._arguments.get("receive_buffer_bytes"):
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        protocol = self._arguments["security_protocol"]
        if protocol.endswith("SSL"):
            self._socket = self._arguments["ssl_context"].wrap_socket(plain, server_hostname=host.rstrip("."))
            self._socket.settimeout(self._silence_s)
        else:
            # Of the kernel: with a timeout of Python's, a call returns with whatever has arrived.
            plain.settimeout(None)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(self._silence_s))
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(self._timeout_s))
            self._flags = socket.MSG_WAITALL
        if self._is_interrupted:
            raise KafkaConnectionError("the connection was interrupted")
        if protocol.startswith("SASL"):
            self._authenticate(host)

    def _authenticate(self, host: str) -> None:
        name = self._arguments["sasl_mechanism"]
        handshake = self._answer_of(SaslHandshakeRequest(mechanism=name, version=1))
        if handshake.error_code:
            raise for_code(handshake.error_code)(f"the broker's mechanisms are {', '.join(handshake.mechanisms)}")
        mechanism = sasl_mechanism(name, self._arguments, host)
        lifetime_ms = 0
        while not mechanism.is_done():
            answer = self._answer_of(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes(), version=1))
            if answer.error_code:
                raise SaslAuthenticationFailedError(f"{for_code(answer.error_code).__name__}: {answer.error_message}")
            mechanism.receive(answer.auth_bytes)
            lifetime_ms = answer.session_lifetime_ms or 0
        if not mechanism.is_authenticated():
            raise SaslAuthenticationFailedError(f"the broker's answers are not what {name} expects")
        if lifetime_ms > 0:
            self._stale_at = time.monotonic() + _USABLE_SHARE * lifetime_ms / 1000

    def newest_version(self, request: Any) -> int:
        """Returns the newest version of a request that this broker takes: in an upgrade, others take other ones."""
        if not self._newest:
            answer = self._answer_of(ApiVersionsRequest(version=0))
            if answer.error_code:
                raise for_code(answer.error_code)("the broker does not say which requests it takes")
            self._newest = {one.api_key: one.max_version for one in answer.api_keys}
        return self._newest.get(request.API_KEY, -1)

    def _answer_of(self, request: Any) -> Any:
        return self.decoded(request, self._exchange(request))

    @staticmethod
    def decoded(request: Any, answer: memoryview) -> Any:
        """Returns an answer as one of kafka-python's objects. Raises KafkaConnectionError for what is none."""
        bytes_of_answer = KafkaBytes(len(answer))
        bytes_of_answer.write(answer)
        bytes_of_answer.seek(0)
        try:
            return request.header.get_response_class().decode(bytes_of_answer)
        except (ValueError, TypeError, LookupError, OverflowError, MemoryError, struct.error) as error:
            what = type(request).__name__
            raise KafkaConnectionError(f"not an answer to {what}: {type(error).__name__}: {error}") from error

    def ask(self, request: Any, on_silence: Callable[[], None] | None = None) -> memoryview:
        """Returns the answer after the number of its request: with the tagged fields of its header, if it has some.

        ``on_silence`` is called in the calling thread whenever nothing has come for a while; what it raises ends the
        waiting.
        """
        answer = self._exchange(request, on_silence)
        self.is_proven = True
        return answer

    def _exchange(self, request: Any, on_silence: Callable[[], None] | None = None) -> memoryview:
        sock = self._socket
        if sock is None:
            raise KafkaConnectionError("not connected")
        self._number += 1
        request.with_header(correlation_id=self._number, client_id=self._client_id)
        sock.sendall(request.encode(framed=True, header=True))
        head = memoryview(bytearray(8))
        self._fill(sock, head, on_silence)
        size, number = struct.unpack(">ii", head)
        if not 4 <= size <= _LARGEST_ANSWER or number != self._number:
            raise KafkaConnectionError(f"not an answer of Kafka's: {size} bytes for request {number}")
        answer = memoryview(pa.allocate_buffer(size - 4)).cast("B")
        self._fill(sock, answer, on_silence)
        return answer

    def _fill(self, sock: socket.socket, memory: memoryview, on_silence: Callable[[], None] | None) -> None:
        filled, deadline = 0, time.monotonic() + self._timeout_s
        while filled < len(memory):
            try:
                count = sock.recv_into(memory[filled:], 0, self._flags)
            except (BlockingIOError, TimeoutError):
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"no answer within {self._timeout_s:.0f} s") from None
                if on_silence is not None:
                    on_silence()
                continue
            if not count:
                raise KafkaConnectionError("the broker has closed the connection")
            filled, deadline = filled + count, time.monotonic() + self._timeout_s

    def interrupt(self) -> None:
        """Ends what the connection's thread waits for. Any thread."""
        self._is_interrupted = True
        if self._socket is not None:
            # Of the plain class: TLS would say goodbye, in the middle of what the other thread does with it.
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends it."""
        if self._socket is not None:
            self._socket.close()


def _timeval(seconds: float) -> bytes:
    whole, rest = divmod(seconds, 1)
    return struct.pack("ll", int(whole), int(rest * 1e6))
