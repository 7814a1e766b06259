"""A server that wants to know who one is, the controller by a password and segment stores by its tokens; in the clear,
and over TLS, both protocols, behind what terminates TLS for it, as in front of many.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography import x509

from authority import Authority
from penstock.dev import LocalServer
from penstock.errors import BadConfigurationError
from penstock.testing import SinkQuery, SourceQuery
from penstock_pravega import PravegaConnector
from penstock_pravega.client import (
    Controller,
    ControllerSettings,
    Credentials,
    SegmentAppender,
    SegmentStores,
    segment_name,
    stream_name,
)
from penstock_pravega.client._connection import Connection
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from penstock_pravega.options import SOURCE_OPTIONS, SourceOptions

USER, PASSWORD = "anna", "1111_aaaa"
HANDSHAKE = b"\x16"
LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
EVENTS = pa.schema([("routing_key", pa.string()), ("value", pa.string())])


#: What each use needs, as docs/production/rights.md lists it: a user for each, with a stream of its own.
RIGHTS = {
    "reading": ["/scope:own/stream:reading,READ"],
    "appending": ["/scope:own/stream:appending,READ_UPDATE"],
    "transacting": ["/scope:own/stream:transacting,READ_UPDATE"],
    "making": ["/,READ_UPDATE", "/scope:made,READ_UPDATE", "/scope:made/stream:making,READ_UPDATE"],
}


def accounts(folder: Path) -> None:
    """One user who may do everything, and others with the rights of a use; PBKDF2 as the server's own tool writes it.

    A user ``reading-0`` lacks the first of these rights.
    """
    salt = os.urandom(32)
    hashed = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, 5000, 64)
    stored = f"5000:{salt.hex()}:{hashed.hex()}".encode().hex()
    users = {USER: ["*,READ_UPDATE"]}
    for use, rights in RIGHTS.items():
        users[use] = rights
        for number, right in enumerate(rights):
            weaker = [right.replace("READ_UPDATE", "READ")] if "UPDATE" in right else []
            users[f"{use}-{number}"] = [*rights[:number], *weaker, *rights[number + 1 :]]
    lines = [f"{user}:{stored}:{';'.join(f'prn::{right}' for right in rights)}" for user, rights in users.items()]
    (folder / "passwd").write_text("\n".join(lines) + "\n")


class SecuredServer(PravegaDevServer):
    """Is asked whether it is there by someone it knows."""

    def __init__(self, folder: Path, properties: dict[str, str]) -> None:
        prefix = "singlenode.security"
        super().__init__(
            {
                f"{prefix}.auth.enable": "true",
                f"{prefix}.auth.credentials.username": USER,
                f"{prefix}.auth.credentials.pwd": PASSWORD,
                f"{prefix}.auth.pwdAuthHandler.accountsDb.location": str(folder / "passwd"),
                **properties,
            },
            quick_start=True,
        )

    def check(self, address, timeout_s):
        controller = Controller(settings(address, timeout_s=timeout_s, tries=1))
        try:
            controller.list_scopes()
        finally:
            controller.close()

    def warm_up(self, address):
        pass


def settings(address, password=PASSWORD, **more):
    return ControllerSettings(address, Credentials.basic(USER, password), **{"tries": 2, "timeout_s": 30, **more})


def certified(folder, name):
    """What a server shows that claims to be ``name``, and the file of the authority that says so."""
    authority = Authority("test authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue(folder / "server.pem", name))
    context.set_alpn_protocols(["h2"])
    return context, str(authority.write(folder / "ca.pem"))


class Terminator:
    """Passes what comes by TLS on in the clear to ``target``; what comes in the clear, too (the controller's own).

    ``context`` says who it claims to be, to whom connects from now on. ``secure`` counts connections by TLS.
    """

    def __init__(self, context):
        self.target, self.secure, self.context = None, 0, context
        self._listener = socket.create_server(("127.0.0.1", 0))
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
                client = self.context.wrap_socket(client, server_side=True)
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

    def __init__(self, folder, stack):
        context, self.ca = certified(folder, LOOPBACK)
        self.controller, self.store = Terminator(context), Terminator(context)
        stack.callback(self.controller.close)
        stack.callback(self.store.close)
        accounts(folder)
        properties = {"pravegaservice.service.published.port": str(self.store.port)}
        server = LocalServer(SecuredServer(folder, properties), folder / "server")
        self.controller.target, self.store.target = server.ports[0], server.ports[1]
        stack.enter_context(server)
        self.in_the_clear = server.address
        self.address = f"tls://127.0.0.1:{self.controller.port}"

    def settings(self, **changes):
        """Of a client over TLS."""
        return settings(self.address, **{"ca_file": self.ca, **changes})


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with ExitStack() as stack:
        yield Secured(tmp_path_factory.mktemp("secured"), stack)


@pytest.fixture(scope="module")
def address(secured):
    return secured.in_the_clear


@pytest.fixture(scope="module")
def toolbox(address):
    toolbox = PravegaToolbox(address, settings=settings(address))
    yield toolbox
    toolbox.close()


# --- in the clear -----------------------------------------------------------------------------------------------------


def test_read_and_written(toolbox):
    stream = toolbox.create_stream(segments=2)
    toolbox.write(stream, [(f"k{n}", b"%d" % n) for n in range(100)])
    assert sorted(toolbox.values(stream)) == sorted(b"%d" % n for n in range(100))


def test_a_transaction(toolbox):
    stream = toolbox.create_stream()
    number, _ = toolbox.controller.begin_transaction(toolbox.scope, stream, 10_000)
    assert toolbox.controller.commit_transaction(toolbox.scope, stream, number)


def test_options_lead_there(toolbox, address):
    given = {"controller": address, "scope": toolbox.scope, "stream": "s"}
    given |= {"user": USER, "password": PASSWORD}
    options = SourceOptions.from_values(SOURCE_OPTIONS.parse(given, owner="test"))
    controller = Controller(options.connection)
    assert not controller.create_scope(toolbox.scope)
    controller.close()
    assert PASSWORD not in repr(options) and options.connection.credentials.token not in repr(options)


def test_a_wrong_password_is_refused(address):
    controller = Controller(settings(address, password="wrong"))
    with pytest.raises(BadConfigurationError, match="refuses"):
        controller.create_scope("nobody")
    controller.close()


def test_nobody_is_refused(address):
    controller = Controller(ControllerSettings(address, None, tries=2))
    with pytest.raises(BadConfigurationError, match="refuses"):
        controller.create_scope("nobody")
    controller.close()


def test_appends_with_a_wrong_token_are_refused(toolbox):
    stream = toolbox.create_stream()
    full = stream_name(toolbox.scope, stream)
    stores = SegmentStores(toolbox.settings)
    stores._tokens[full] = "nonsense"
    appender = SegmentAppender(stores, full, 0, segment_name(full, 0))
    appender.append(b"\0\0\0\0\0\0\0\1a", 1)  # the wrong token is given up and another one asked for
    appender.flush()
    appender.close()
    assert toolbox.values(stream) == [b"a"]
    assert stores.token(full) not in ("", "nonsense")
    stores.close()


# --- rights -----------------------------------------------------------------------------------------------------------


class Use:
    """What a user does on its stream. Raises what it is told."""

    def __init__(self, address, folder, toolbox):
        self.address, self.folder, self.controller = address, folder, toolbox.controller
        toolbox.controller.create_scope("own")
        for stream in ("reading", "appending", "transacting"):
            toolbox.controller.create_stream("own", stream)

    def do(self, use, user):
        scope = "made" if use == "making" else "own"
        options = {"controller": self.address, "scope": scope, "stream": use, "user": user, "password": PASSWORD}
        options["retryTimeout"] = "1s"
        connector = PravegaConnector()
        if use == "reading":
            source = connector.create_source(connector.source_options.parse(options, owner="source"))
            query = SourceQuery(source, source.fixed_schema())
            query.read_all_now()
            query.run_batch()
            query.stop()
            return
        options["delivery"] = "at-least-once" if use == "appending" else "exactly-once"
        if use == "making":
            options["create"] = "true"
            if self.controller.stream_exists(scope, use):
                self.controller.seal_stream(scope, use)
                self.controller.delete_stream(scope, use)
        sink_options = connector.sink_options.parse(options, owner="sink")
        rows = pa.record_batch([["k"], ["v"]], schema=EVENTS)
        SinkQuery(connector.create_sink(sink_options, EVENTS), EVENTS, self.folder / user).run(0, [[rows]])


@pytest.fixture
def uses(address, tmp_path, toolbox):
    return Use(address, tmp_path, toolbox)


@pytest.mark.parametrize("use", RIGHTS)
def test_each_use_with_exactly_the_rights_that_are_listed(uses, use):
    uses.do(use, use)


@pytest.mark.exhaustive("each right taken away or made weaker; the test before is the witness that they suffice")
@pytest.mark.parametrize(("use", "lacks"), [(use, number) for use in RIGHTS for number in range(len(RIGHTS[use]))])
def test_none_of_these_rights_is_listed_in_vain(uses, use, lacks):
    with pytest.raises(BadConfigurationError, match=r"refuses|check the credentials"):
        uses.do(use, f"{use}-{lacks}")


# --- over TLS ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def over_tls(secured):
    toolbox = PravegaToolbox(secured.address, settings=secured.settings())
    yield toolbox
    toolbox.close()


def test_written_exactly_once_and_read(secured, over_tls, tmp_path):
    stream, before = over_tls.create_stream(segments=2), secured.store.secure
    options = {"controller": secured.address, "scope": over_tls.scope, "stream": stream, "tls.caFile": secured.ca}
    options |= {"user": USER, "password": PASSWORD}
    connector = PravegaConnector()
    sink_options = connector.sink_options.parse({**options, "delivery": "exactly-once"}, owner="sink")
    rows = pa.record_batch([[f"k{n % 5}" for n in range(300)], [str(n) for n in range(300)]], schema=EVENTS)
    SinkQuery(connector.create_sink(sink_options, EVENTS), EVENTS, tmp_path / "ck").run(0, [[rows]])
    assert secured.store.secure > before
    source = connector.create_source(connector.source_options.parse(options, owner="source"))
    found = SourceQuery(source, source.fixed_schema()).read_all_now()
    assert sorted(int(row["value"]) for row in found) == list(range(300))


def test_an_authority_that_is_not_known_is_refused(secured, over_tls, tmp_path):
    other = str(Authority("another authority").write(tmp_path / "other.pem"))
    for settings in (secured.settings(ca_file=other), secured.settings(ca_file=None)):
        with pytest.raises(BadConfigurationError, match=r"certificate.*tls\.caFile"):
            PravegaToolbox(secured.address, over_tls.scope, settings)
        with pytest.raises(BadConfigurationError, match=r"segment store.*tls\.caFile"):
            Connection("127.0.0.1", secured.store.port, 20, settings.tls_context())


def test_authorities_that_were_renewed_are_read_again(secured, over_tls, tmp_path):
    ca = Path(Authority("another authority").write(tmp_path / "ca.pem"))
    os.utime(ca, (time.time() - 60,) * 2)
    stores = SegmentStores(secured.settings(ca_file=str(ca)))
    with pytest.raises(BadConfigurationError, match=r"certificate.*tls\.caFile"):
        stores.controller.list_scopes()
    ca.write_bytes(Path(secured.ca).read_bytes())
    os.utime(ca, (time.time() - 30,) * 2)
    assert over_tls.scope in stores.controller.list_scopes()
    stream = over_tls.create_stream()
    assert stores.info(f"{over_tls.scope}/{stream}", 0).end == 0
    stores.close()


def test_a_certificate_for_another_name(secured, tmp_path, monkeypatch):
    context, ca = certified(tmp_path, x509.DNSName("pravega.example"))
    monkeypatch.setattr(secured.controller, "context", context)
    monkeypatch.setattr(secured.store, "context", context)
    with pytest.raises(BadConfigurationError, match=r"certificate.*tls\.checkHostname"):
        PravegaToolbox(secured.address, settings=secured.settings(ca_file=ca))
    before = secured.store.secure
    toolbox = PravegaToolbox(secured.address, settings=secured.settings(ca_file=ca, validate_host=False))
    try:
        stream = toolbox.create_stream()
        toolbox.write(stream, [b"a", b"b"])
        assert toolbox.values(stream) == [b"a", b"b"]
    finally:
        toolbox.close()
    assert secured.store.secure > before
