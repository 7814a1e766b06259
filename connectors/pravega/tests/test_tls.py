"""Everything over TLS: both protocols, to a real server behind what terminates TLS for it, as in front of many."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from contextlib import ExitStack, suppress

import pyarrow as pa
import pytest
from cryptography import x509

from authority import Authority
from penstock.dev import LocalServer
from penstock.errors import BadConfigurationError
from penstock.testing import SinkQuery, SourceQuery
from penstock_pravega import PravegaConnector
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from penstock_pravega.protocol import ControllerSettings
from penstock_pravega.protocol._connection import Connection

HANDSHAKE = b"\x16"
EVENTS = pa.schema([("routing_key", pa.string()), ("value", pa.string())])


class Terminator:
    """Passes what comes by TLS on in the clear to ``target``; what comes in the clear, too (the controller's own).

    ``secure`` counts connections by TLS.
    """

    def __init__(self, port, context):
        self.target, self.secure, self._context = None, 0, context
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            if client.recv(1, socket.MSG_PEEK)[:1] == HANDSHAKE:
                client = self._context.wrap_socket(client, server_side=True)
                self.secure += 1
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            # Nobody is there yet: whoever has connected waits for an answer until this end is closed.
            client.close()
            return
        threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
        self._pump(client, server)

    @staticmethod
    def _pump(source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()


class Secured:
    """A server, what is in front of its two ports, and what a user is told."""

    def __init__(self, folder, name, stack):
        authority = Authority("test authority")
        self.ca = str(authority.write(folder / "ca.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue(folder / "server.pem", name))
        context.set_alpn_protocols(["h2"])
        self.controller, self.store = Terminator(0, context), Terminator(0, context)
        stack.callback(self.controller.close)
        stack.callback(self.store.close)
        properties = {"pravegaservice.service.published.port": str(self.store.port)}
        server = LocalServer(PravegaDevServer(properties, quick_start=True), folder / "server")
        self.controller.target, self.store.target = server.ports[0], server.ports[1]
        stack.enter_context(server)
        self.address = f"tls://127.0.0.1:{self.controller.port}"

    def settings(self, **changes):
        return ControllerSettings(self.address, **{"ca_file": self.ca, "timeout_s": 20, "tries": 2, **changes})


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with ExitStack() as stack:
        yield Secured(tmp_path_factory.mktemp("tls"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")), stack)


@pytest.fixture(scope="module")
def toolbox(secured):
    toolbox = PravegaToolbox(secured.address, settings=secured.settings())
    yield toolbox
    toolbox.close()


def test_written_exactly_once_and_read(secured, toolbox, tmp_path):
    stream, before = toolbox.create_stream(segments=2), secured.store.secure
    options = {"controller": secured.address, "scope": toolbox.scope, "stream": stream, "tls.ca.location": secured.ca}
    connector = PravegaConnector()
    sink_options = connector.sink_options.parse({**options, "delivery": "exactly-once"}, owner="sink")
    rows = pa.record_batch([[f"k{n % 5}" for n in range(300)], [str(n) for n in range(300)]], schema=EVENTS)
    SinkQuery(connector.create_sink(sink_options, EVENTS), EVENTS, tmp_path / "ck").run(0, [[rows]])
    assert secured.store.secure > before
    source = connector.create_source(connector.source_options.parse(options, owner="source"))
    found = SourceQuery(source, source.fixed_schema()).read_all_now()
    assert sorted(int(row["value"]) for row in found) == list(range(300))


def test_an_authority_that_is_not_known_is_refused(secured, toolbox, tmp_path):
    other = str(Authority("another authority").write(tmp_path / "other.pem"))
    for settings in (secured.settings(ca_file=other), secured.settings(ca_file=None)):
        with pytest.raises(BadConfigurationError, match=r"certificate.*tls\.ca\.location"):
            PravegaToolbox(secured.address, toolbox.scope, settings)
        with pytest.raises(BadConfigurationError, match=r"segment store.*tls\.ca\.location"):
            Connection("127.0.0.1", secured.store.port, 20, settings.tls_context())


def test_a_certificate_for_another_name(tmp_path):
    with ExitStack() as stack:
        elsewhere = Secured(tmp_path, x509.DNSName("pravega.example"), stack)
        with pytest.raises(BadConfigurationError, match=r"certificate.*tls\.validateHost"):
            PravegaToolbox(elsewhere.address, settings=elsewhere.settings())
        toolbox = PravegaToolbox(elsewhere.address, settings=elsewhere.settings(validate_host=False))
        stack.callback(toolbox.close)
        stream = toolbox.create_stream()
        toolbox.write(stream, [b"a", b"b"])
        assert toolbox.values(stream) == [b"a", b"b"]
        assert elsewhere.store.secure > 0
