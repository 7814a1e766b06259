"""A server that wants a password and a certificate, over TLS: who gets in, and what is said to those who don't.

Its partitioner is another one as well, which spares one more server.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import ssl
import threading
import time
import uuid
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from cassandra.auth import AuthProvider, PlainTextAuthenticator
from cryptography import x509

from authority import Authority
from penstock.errors import BadConfigurationError, RetriableError
from penstock.metrics import Metrics
from penstock.retry import RetryPolicy
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator
from penstock.testing import SinkQuery, SourceQuery
from penstock_cassandra import CassandraConnector, Lookup
from penstock_cassandra.client import (
    Client,
    ConnectionSettings,
    _client,
    acquire_client,
    release_client,
    shared_client,
)
from penstock_cassandra.dev import CassandraServer
from penstock_cassandra.sink._committer import CassandraCheckpointCommitter
from suite.cassandra import QuickServer, close_clients

PASSWORDS = {"anna": "anna-s3cr3t", "bert": "bert-s3cr3t"}
KEY_PASSWORD = "key-s3cr3t"
ADMINISTRATOR = {"user": "cassandra", "password": "cassandra"}  # as the server is delivered
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


class Secured:
    """``options()`` are those of a user who does everything right."""

    def __init__(self, server, folder, authority):
        self.server, self.folder, self.authority = server, folder, authority
        self.keyspace = "k" + uuid.uuid4().hex[:8]
        with Client(settings(server.address, folder)) as client:
            replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
            client.rows(f"create keyspace {self.keyspace} with replication = {replication}")
            for user, password in PASSWORDS.items():
                client.rows(f"create role {user} with password = '{password}' and login = true")
            client.rows(f"grant select on keyspace {self.keyspace} to anna")
        self._table = self.new_table()

    def new_table(self):
        """Creates a table that anna may write, and returns its name."""
        table = "t" + uuid.uuid4().hex[:8]
        with Client(settings(self.server.address, self.folder)) as client:
            client.rows(f"create table {self.keyspace}.{table} (id bigint primary key, text text)")
            client.rows(f"grant modify on table {self.keyspace}.{table} to anna")
        return table

    def options(self, **changes):
        host, _, port = self.server.address.rpartition(":")
        given = {
            **{"host": host, "port": port, "keyspace": self.keyspace, "table": self._table, "connectTimeout": "20s"},
            **{"user": "anna", "password": PASSWORDS["anna"], "tls": "true", "tls.caFile": self.folder / "ca.pem"},
            **{"tls.certFile": self.folder / "client.pem", "tls.keyPassword": KEY_PASSWORD},
        }
        given |= {name.replace("_", "."): value for name, value in changes.items()}
        return {name: str(value) for name, value in given.items() if value is not None}


def settings(address, folder):
    host, _, port = address.rpartition(":")
    return ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=120, **connection(folder))


def connection(folder):
    tls = {"tls_ca_file": str(folder / "ca.pem"), "tls_cert_file": str(folder / "client.pem")}
    return {**ADMINISTRATOR, **tls, "tls": True, "tls_key_password": KEY_PASSWORD}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority("test authority")
    authority.write(folder / "ca.pem")
    authority.issue(folder / "server.pem", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    authority.issue(folder / "client.pem", x509.DNSName("client"), KEY_PASSWORD)
    wanted = {
        "partitioner": "org.apache.cassandra.dht.RandomPartitioner",
        "authenticator": "PasswordAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "client_encryption_options": {
            **{"enabled": True, "optional": False, "require_client_auth": True},
            "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"},
            **{"keystore": str(folder / "server.pem"), "truststore": str(folder / "ca.pem")},
        },
    }
    kind = QuickServer(wanted, heap_mb=384, connection=connection(folder))
    with CassandraServer(kind, folder / "server") as server:
        yield Secured(server, folder, authority)
        close_clients({server.ports[0]})


def read(options):
    parsed = CassandraConnector.source_options.parse({**options, "splits": "2"}, owner="source penstock.cassandra")
    source = CassandraConnector().create_source(parsed)
    query = SourceQuery(source, source.fixed_schema())
    try:
        return sorted((row["id"], row["text"]) for row in query.read_all_now())
    finally:
        query.stop()


def write(options, checkpoint, *ids):
    parsed = CassandraConnector.sink_options.parse(options, owner="sink penstock.cassandra")
    rows = pa.record_batch([list(ids), [f"row {id}" for id in ids]], schema=SCHEMA)
    SinkQuery(CassandraConnector().create_sink(parsed, SCHEMA), SCHEMA, checkpoint).run(0, [[rows]])


def test_those_who_may_read_and_write(secured, tmp_path):
    options = secured.options(table=secured.new_table())
    write(options, tmp_path / "ck", 1, 2, 3)
    assert read(options) == [(id, f"row {id}") for id in (1, 2, 3)]


def refused(options, words, error=BadConfigurationError):
    """That all are told what ``words`` match, and never a secret."""
    with pytest.raises(error, match=words) as caught:
        read(options)
    problem = caught.value
    while problem is not None:
        assert "s3cr3t" not in f"{problem!r} {problem}"
        problem = problem.__cause__ or problem.__context__
    return str(caught.value)


CHANGES = {
    "wrong password": ({"password": "wr0ng-s3cr3t"}, "check the options 'user' and 'password'"),
    "no user": ({"user": None, "password": None}, "check the options 'user' and 'password'"),
    "no rights": ({"user": "bert", "password": PASSWORDS["bert"]}, "the user may not do that"),
    "another authority": ({"tls_caFile": "other"}, "option 'tls.caFile'"),
    "the system's authorities": ({"tls_caFile": None}, "option 'tls.caFile'"),
    # Its refusal comes after the handshake, as an alert or as an end of the connection that overtakes the alert.
    "another authority's certificate": ({"tls_certFile": "stranger"}, "options? 'tls.certFile'"),
    "wrong key password": ({"tls_keyPassword": "wr0ng-s3cr3t"}, "'tls.keyPassword'"),
    "no file": ({"tls_caFile": "/nowhere/ca.pem"}, "option 'tls.caFile': /nowhere/ca.pem"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_login_that_the_server_refuses_is_a_clear_error(secured, tmp_path, name):
    changes, words = CHANGES[name]
    other = Authority("another authority")
    made = {
        "other": lambda: other.write(tmp_path / "other.pem"),
        "stranger": lambda: other.issue(tmp_path / "stranger.pem", x509.DNSName("client"), KEY_PASSWORD),
    }
    errors = (BadConfigurationError, RetriableError) if "stranger" in changes.values() else BadConfigurationError
    refused(secured.options(**{k: made[v]() if v in made else v for k, v in changes.items()}), words, errors)


def test_a_certificate_for_another_address(secured):
    """The server itself gets it, while it runs."""
    path = secured.folder / "server.pem"
    right = path.read_bytes()
    # Connections are kept for the same options: with another time-out they are new.
    changes = {"connectTimeout": "21s"}
    try:
        secured.authority.issue(path, x509.DNSName("localhost"))
        secured.server.nodetool("reloadssl")
        refused(secured.options(**changes), "options 'host' and 'tls.checkHostname'")
        # The driver asks for addresses first: a name in the certificate is of no use.
        refused(secured.options(**changes, host="localhost"), "options 'host' and 'tls.checkHostname'")
        read(secured.options(**changes, tls_checkHostname="false"))
    finally:
        path.write_bytes(right)
        secured.server.nodetool("reloadssl")


#: What each use needs, as docs/production/rights.md lists it; ``{table}`` is the table, ``{keyspace}`` a keyspace for
#: what was sent. System tables may be read by every role.
RIGHTS = {
    "scan": ["SELECT ON {table}"],
    "lookup": ["SELECT ON {table}"],
    "upserts": ["MODIFY ON {table}"],
    "upserts and deletes": ["MODIFY ON {table}"],
    "if not exists": ["MODIFY ON {table}", "SELECT ON {table}"],
    "write-ahead, the first time": ["MODIFY ON {table}", "CREATE ON KEYSPACE {keyspace}"],
    "write-ahead": ["MODIFY ON {table}", "MODIFY ON {sent}", "SELECT ON {sent}"],
}


class Use:
    """What roles do with a table of their own, each with a password of this test's."""

    def __init__(self, secured, folder, name):
        self.secured, self.folder, self.name = secured, folder, name
        self.keyspace = "k" + uuid.uuid4().hex[:8]
        self.table = f"{self.keyspace}.t"
        with self.administrator() as client:
            for keyspace in (self.keyspace, f"{self.keyspace}_sent"):
                replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
                client.rows(f"create keyspace {keyspace} with replication = {replication}")
            client.rows(f"create table {self.table} (id bigint primary key, text text)")
            client.rows(f"insert into {self.table} (id, text) values (1, 'row 1')")
            if name == "write-ahead":
                CassandraCheckpointCommitter(client, f"{self.keyspace}_sent", "q", RetryPolicy(1)).create()

    def administrator(self):
        return Client(settings(self.secured.server.address, self.secured.folder))

    def do(self, rights):
        """Raises what a role with these rights is told."""
        role = "r" + uuid.uuid4().hex[:8]
        sent = f"{self.keyspace}_sent"
        with self.administrator() as client:
            client.rows(f"create role {role} with password = 'role-s3cr3t' and login = true")
            for right in rights:
                resource = right.format(table=self.table, keyspace=sent, sent=f"{sent}.penstock_sent_segments")
                client.rows(f"grant {resource} to {role}")
        options = self.secured.options(
            user=role, password="role-s3cr3t", keyspace=self.keyspace, table="t", retryTimeout="1s"
        )
        checkpoint = self.folder / role
        if self.name == "scan":
            parsed = CassandraConnector.source_options.parse(options, owner="source penstock.cassandra")
            source = CassandraConnector().create_source(parsed)
            query = SourceQuery(source, source.fixed_schema())
            try:
                assert [row["id"] for row in query.read_all_now()] == [1]
            finally:
                query.stop()
        elif self.name == "lookup":
            found = Lookup(options, ["id"], ["text"]).look_up(pa.record_batch({"id": pa.array([1], pa.int64())}))
            assert found.to_pylist() == [[{"text": "row 1"}]]
        elif self.name == "upserts":
            write(options, checkpoint, 1, 2)
        elif self.name == "upserts and deletes":
            schema = pa.schema([*SCHEMA, ("gone", pa.bool_())])
            parsed = CassandraConnector.sink_options.parse({**options, "deleteColumn": "gone"}, owner="sink")
            rows = pa.record_batch([[1, 2], ["a", "b"], [True, False]], schema=schema)
            SinkQuery(CassandraConnector().create_sink(parsed, schema), schema, checkpoint).run(0, [[rows]])
        elif self.name == "if not exists":
            write({**options, "ifNotExists": "true"}, checkpoint, 1, 2)
        else:
            write({**options, "delivery": "write-ahead", "checkpointKeyspace": sent}, checkpoint, 1, 2)


@pytest.mark.parametrize("name", RIGHTS)
def test_each_use_with_exactly_the_rights_that_are_listed(secured, tmp_path, name):
    Use(secured, tmp_path, name).do(RIGHTS[name])


@pytest.mark.exhaustive("each right taken away; the test before is the witness that they suffice")
@pytest.mark.parametrize("name", RIGHTS)
def test_none_of_these_rights_is_listed_in_vain(secured, tmp_path, name):
    use = Use(secured, tmp_path, name)
    for right in RIGHTS[name]:
        with pytest.raises(BadConfigurationError, match="the user may not do that") as refused:
            use.do([one for one in RIGHTS[name] if one != right])
        assert "s3cr3t" not in str(refused.value)


SILENT = {
    "without TLS": ({"tls": None, "tls_caFile": None, "tls_certFile": None, "tls_keyPassword": None}, "the option tls"),
    "without a certificate": ({"tls_certFile": None, "tls_keyPassword": None}, "options? 'tls.certFile'"),
}


@pytest.mark.parametrize("name", SILENT)
def test_the_server_ends_the_connection_with_or_without_a_word(secured, name):
    """If its word is lost it may as well be a server that goes away: it is tried again, but the option is named."""
    changes, words = SILENT[name]
    refused(secured.options(**changes), words, (BadConfigurationError, RetriableError))


def test_tls_to_a_server_without_it(secured, cassandra):
    where = {name: cassandra.options[name] for name in ("host", "port")}
    refused(secured.options(**where), "does not speak TLS: set the option tls to false")


def test_reads_with_the_random_partitioner(secured):
    administrator = settings(secured.server.address, secured.folder)
    with Client(administrator) as client:
        for name, kind in (("small", "text"), ("big", "blob")):
            client.rows(f"create table {secured.keyspace}.{name} (id int primary key, v {kind})")
        insert = {name: f"insert into {secured.keyspace}.{name} (id, v) values (?, ?)" for name in ("small", "big")}
        for number in range(300):
            client.rows(insert["small"], (number, "x"))
        for number in range(400):
            client.rows(insert["big"], (number, bytes(20_000)))

    def source_of(table, **options):
        given = secured.options(table=table, **ADMINISTRATOR, **options)
        return CassandraConnector().create_source(CassandraConnector.source_options.parse(given, owner="source"))

    source = source_of("small", splits=5)
    schema = source.fixed_schema()
    source.validate_schema(schema)

    def ids(split):
        batches = SourceReader(source, ReaderContext(schema, Metrics())).read([split])
        return [number for batch in batches for number in batch["id"].to_pylist()]

    each = [ids(split) for split in source.list_splits(Coordinator(parallelism=2))]
    assert sorted(number for found in each for number in found) == list(range(300)) and all(each)
    # Once flushed, the server has estimates: splits are as large as asked for.
    secured.server.nodetool("flush", secured.keyspace)
    secured.server.nodetool("refreshsizeestimates")
    found = list(source_of("big", maxSplitSize="1mb").list_splits(Coordinator(parallelism=2)))
    assert 4 <= len(found) <= 16, len(found)
    assert 500_000 < found[0].size_bytes < 2_000_000


class MetadataService(BaseHTTPRequestHandler):
    """Plays the part of a cloud that is not the server: it says where the server is and which nodes there are."""

    def do_GET(self):
        body = json.dumps({"contact_info": self.server.contact}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def bundle(secured, tmp_path):
    """A secure connect bundle for the server; a cloud's would lead through a proxy, which here is the node itself."""
    authority = secured.authority
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=secured.folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(secured.folder / "server.pem")
    with HTTPServer(("127.0.0.1", 0), MetadataService) as service:
        service.socket = context.wrap_socket(service.socket, server_side=True)
        service.contact = {
            "local_dc": "datacenter1",
            "sni_proxy_address": secured.server.address,
            "contact_points": [str(uuid.uuid4())],
        }
        threading.Thread(target=service.serve_forever, daemon=True).start()
        both = authority.issue(tmp_path / "both.pem", x509.DNSName("client")).read_text()
        key, certificate = both.split("-----BEGIN CERTIFICATE")
        path = tmp_path / "bundle.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", json.dumps({"host": "127.0.0.1", "port": service.server_port}))
            archive.writestr("ca.crt", (secured.folder / "ca.pem").read_text())
            archive.writestr("cert", "-----BEGIN CERTIFICATE" + certificate)
            archive.writestr("key", key)
        yield path
        service.shutdown()


def with_bundle(secured, path):
    left_out = dict.fromkeys(("host", "port", "tls", "tls_caFile", "tls_certFile", "tls_keyPassword"))
    return secured.options(**left_out, bundle=path)


def test_a_bundle_leads_to_the_server(secured, bundle, tmp_path):
    options = with_bundle(secured, bundle)
    write(options, tmp_path / "ck", 10, 11)
    assert {(10, "row 10"), (11, "row 11")} <= set(read(options))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.pem", "bundle.zip", "ck"], "unpacked beside it"


def test_a_file_that_is_no_bundle_is_a_clear_error(secured, tmp_path):
    refused(with_bundle(secured, tmp_path / "nothing.zip"), "option 'bundle': .*nothing.zip can't be used")
    (tmp_path / "no.zip").write_text("no archive")
    refused(with_bundle(secured, tmp_path / "no.zip"), "option 'bundle': .*no.zip can't be used")


def test_a_renewed_certificate_gets_a_new_connection(secured, tmp_path):
    def renew(age_s):
        for name in ("ca.pem", "client.pem"):
            shutil.copy(secured.folder / name, tmp_path / name)
            os.utime(tmp_path / name, (time.time() - age_s,) * 2)

    renew(60)
    connecting = settings(secured.server.address, tmp_path)
    first = acquire_client(connecting)
    assert shared_client(connecting) is first
    renew(30)
    second = shared_client(connecting)
    assert second is not first and not first.session.is_shutdown
    release_client(first)
    assert first.session.is_shutdown and second.rows("select release_version from system.local")


def test_a_process_keeps_a_few_clients(monkeypatch):
    ended = []
    monkeypatch.setattr(_client, "open_cluster", lambda settings: MagicMock(shutdown=lambda: ended.append(settings)))
    every = [ConnectionSettings(hosts=("few",), password=f"p{number}") for number in range(52)]
    for one in every:
        shared_client(one)
    assert len(ended) >= 52 - 16 and ended[0] is every[0]
    clients = [client for one in every[-3:] if (client := shared_client(one))]
    assert len(set(clients)) == 3 and len(ended) <= 52
    for one in every:
        _client._shared.forget(one)
    assert len(ended) == 52


class OwnLogin(AuthProvider):
    """Logs in as the user that its settings name."""

    def __init__(self, settings):
        self.user, self.password = settings["user"], settings["password"]

    def new_authenticator(self, host):
        return PlainTextAuthenticator(self.user, self.password)


def own(secured, config, **more):
    provider = {"authProvider": f"{__name__}:OwnLogin", "user": None, "password": None}
    return secured.options(table=secured.new_table(), **provider, **more) | {"authProvider.config": config}


def test_a_login_of_your_own(secured, tmp_path):
    options = own(secured, f"user=anna,password={PASSWORDS['anna']}")
    write(options, tmp_path / "ck", 1, 2)
    assert read(options) == [(1, "row 1"), (2, "row 2")]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("user=anna,password=wr0ng-s3cr3t", "refused, check the option"),
        ("user=anna", "needs the setting 'password' in 'authProvider.config'"),
        ("anna", "takes pairs as in name=value,name=value"),
    ],
)
def test_a_login_of_your_own_that_is_wrong(secured, config, says):
    with pytest.raises(BadConfigurationError) as refused:
        read(own(secured, config))
    assert says in str(refused.value) and "s3cr3t" not in str(refused.value)
