"""Why a server does not answer: looks at its port, once a client has failed, and says what is there.

A client of a protocol says little: no answer, a connection that was closed. What a person did is one of a few things
(a wrong name, a wrong port, a connection with TLS to a port without it, or the other way round), and each can be seen.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.printable import printable

__all__ = ["Seen", "look_at", "look_at_all"]

_TIMEOUT_S = 3.0
#: How long what was seen counts: a client tries again, and fails again, several times a second.
_KEPT_S = 5.0
#: How long a server that speaks first may take.
_GREETING_S = 0.3
_SHOWN = 24


@dataclass(frozen=True)
class Seen:
    """What is at an address. ``text`` names the address and says what is wrong, without advice.

    ``kind``: ``name`` (it does not resolve), ``refused`` (nothing listens), ``silent`` (no answer in time), ``tls``
    (TLS is spoken there, and was not expected), ``plain`` (the other way round), ``other`` (another kind of server).
    """

    kind: str
    text: str

    @property
    def may_pass(self) -> bool:
        """Whether the same address may work later: a server that restarts, a name that is being published."""
        return self.kind in ("name", "refused", "silent")


#: By what was asked: when it was looked at, and what was seen.
_kept: dict[tuple[str, bool, str], tuple[float, Seen | None]] = {}


def look_at_all(
    addresses: Sequence[str], *, tls: bool, protocol: str, greeting: Callable[[bytes], bool] | None = None
) -> Seen | None:
    """Returns what is wrong with all of ``addresses`` (``host:port``), in one text; ``None`` if one of them seems well.

    It passes if one of them may. Takes a few seconds at most for each of the first three. ``greeting`` is as in
    :func:`look_at`.
    """
    seen = []
    for address in addresses[:3]:
        if (one := look_at(address, tls=tls, protocol=protocol, greeting=greeting)) is None:
            return None
        seen.append(one)
    if not seen:
        return None
    first = next((one for one in seen if one.may_pass), seen[0])
    return Seen(first.kind, "; ".join(dict.fromkeys(one.text for one in seen)))


def look_at(address: str, *, tls: bool, protocol: str, greeting: Callable[[bytes], bool] | None = None) -> Seen | None:
    """Returns what is wrong at ``address``, ``host:port``, for a client that speaks ``protocol`` (for the text), with
    TLS if ``tls``. ``None`` if nothing is, as far as that can be seen. Raises nothing. Any thread.

    ``greeting`` recognizes the first bytes of a server of this protocol, if its servers speak before their clients.

    A server that is there is looked at once in five seconds at most. One that is not may come at any moment.
    """
    asked = address, tls, protocol
    kept = _kept.get(asked)
    if kept is not None and time.monotonic() < kept[0] + _KEPT_S:
        return kept[1]
    seen = _look(address, tls=tls, protocol=protocol, greeting=greeting)
    if seen is None or not seen.may_pass:
        _kept[asked] = time.monotonic(), seen
    return seen


def _look(address: str, *, tls: bool, protocol: str, greeting: Callable[[bytes], bool] | None) -> Seen | None:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
            connection.settimeout(_TIMEOUT_S)
            if tls:
                return _without_tls(address, connection, host)
            said = _said_first(connection)
        if said:
            is_ours = greeting is not None and greeting(said)
            return None if is_ours else Seen("other", f"{address} answers {_shown(said)} and is not {protocol}")
        if _speaks_tls(host, int(port)):
            return Seen("tls", f"{address} speaks TLS, and the client connects without it")
        answer = _answer_to_http(host, int(port))
        if protocol != "HTTP" and answer.startswith(b"HTTP/"):
            return Seen("other", f"{address} is an HTTP server, not {protocol}")
        return None
    except socket.gaierror as error:
        return Seen("name", f"the name '{host}' does not resolve ({error.strerror or error})")
    except ConnectionRefusedError:
        return Seen("refused", f"{address}: connection refused, nothing listens there")
    except TimeoutError:
        return Seen(
            "silent", f"{address}: no connection within {_TIMEOUT_S:g} s (a firewall, or a machine that is off)"
        )
    except (OSError, ValueError, UnicodeError) as error:
        return Seen("silent", f"{address}: {error}")


def _without_tls(address: str, connection: socket.socket, host: str) -> Seen | None:
    try:
        with _unchecked().wrap_socket(connection, server_hostname=host):
            return None
    except ssl.SSLError as error:
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE", "HTTP_REQUEST"):
            return Seen("plain", f"{address} does not speak TLS")
        return None  # it does, and does not like ours: the client's own words are better
    except TimeoutError:
        return Seen("silent", f"{address} does not answer to TLS")
    except OSError:
        return Seen("silent", f"{address} closes connections that begin with TLS")


def _unchecked() -> ssl.SSLContext:
    """Returns a context for a look only: nothing is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _said_first(connection: socket.socket) -> bytes:
    connection.settimeout(_GREETING_S)
    try:
        return connection.recv(_SHOWN)
    except OSError:
        return b""


def _speaks_tls(host: str, port: int) -> bool:
    with socket.create_connection((host, port), _TIMEOUT_S) as connection:
        try:
            with _unchecked().wrap_socket(connection, server_hostname=host):
                return True
        except ssl.SSLError as error:
            # An alert is an answer in TLS.
            return "ALERT" in (error.reason or "")
        except OSError:
            return False


def _answer_to_http(host: str, port: int) -> bytes:
    with contextlib.suppress(OSError), socket.create_connection((host, port), _TIMEOUT_S) as connection:
        connection.settimeout(_TIMEOUT_S)
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return connection.recv(_SHOWN)
    return b""


def _shown(data: bytes) -> str:
    return f"'{printable(data.decode('latin-1').strip())}'"
