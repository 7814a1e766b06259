"""Tokens of Keycloak: fetched, renewed, refused, and what a controller gets to see of them.

Everything runs against what a real Keycloak answered, recorded, and with --all against a real one. With
``RECORD_EXCHANGES=1`` that records it anew.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import subprocess
import threading
import time
import urllib.request
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import grpc
import pytest

from penstock.dev import free_ports
from penstock.dev._java import maven_command
from penstock.dev._paths import cache_folder
from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock_pravega.client import Controller, ControllerSettings, KeycloakCredentials
from penstock_pravega.client import _keycloak as module
from penstock_pravega.options import SOURCE_OPTIONS, SourceOptions

VERSION = "24.0.5"
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
SECRET = "s3cr3t-of-the-job"
LIFESPAN_S = 60
RECORDED = Path(__file__).parent / "recorded" / "keycloak.json"


def realm():
    """One with the resource server that Pravega has, an account that may use it, and one that may not."""
    service = {"serviceAccountsEnabled": True, "standardFlowEnabled": False}
    everything = {"resources": '["prn::*"]', "scopes": '["READ_UPDATE"]', "applyPolicies": '["jobs"]'}
    authorization = {
        "policyEnforcementMode": "ENFORCING",
        "scopes": [{"name": "READ_UPDATE"}],
        "resources": [{"name": "prn::*", "scopes": [{"name": "READ_UPDATE"}]}],
        "policies": [
            {"name": "jobs", "type": "client", "logic": "POSITIVE", "config": {"clients": '["a-job"]'}},
            {"name": "may", "type": "scope", "logic": "POSITIVE", "config": everything},
        ],
    }
    controller = {"authorizationServicesEnabled": True, "authorizationSettings": authorization}
    return {
        "realm": "plant",
        "enabled": True,
        "sslRequired": "none",
        "accessTokenLifespan": LIFESPAN_S,
        "clients": [
            {"clientId": "pravega-controller", "secret": "unused", **service, **controller},
            {"clientId": "a-job", "secret": SECRET, **service},
            {"clientId": "a-guest", "secret": SECRET, **service},
        ],
    }


def distribution() -> Path:
    """Keycloak as it is published, fetched once by Maven."""
    folder = cache_folder() / "keycloak"
    archive = folder / f"keycloak-quarkus-dist-{VERSION}.zip"
    if not archive.exists():
        fetched = folder / f".{os.getpid()}"
        artifact = f"-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
        command = [maven_command(), "-q", "-B", GOAL, artifact, f"-DoutputDirectory={fetched}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        (fetched / archive.name).rename(archive)
        fetched.rmdir()
    return archive


@contextmanager
def real_keycloak(folder):
    """The address of a Keycloak with the realm."""
    with zipfile.ZipFile(distribution()) as archive:
        archive.extractall(folder)
    home = folder / f"keycloak-{VERSION}"
    (home / "data" / "import").mkdir(parents=True)
    (home / "data" / "import" / "plant-realm.json").write_text(json.dumps(realm()))
    (port,) = free_ports(1)
    arguments = ["start-dev", "--db=dev-mem", "--http-host=127.0.0.1", f"--http-port={port}", "--import-realm"]
    java = "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true"
    environment = {**os.environ, "JAVA_OPTS": java}
    log = folder / "log"
    with log.open("wb") as output:
        command = ["sh", str(home / "bin" / "kc.sh"), *arguments]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 300
        address = f"http://127.0.0.1:{port}"
        while not answers(f"{address}/realms/plant"):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-5000:]
            time.sleep(0.2)
        yield address
    finally:
        process.kill()  # the script has become the server
        process.wait()
        shutil.rmtree(home)


@contextmanager
def serving(answer):
    """The address of a server that answers so: ``answer(path, form, authorization)`` gives status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, body = answer(self.path, form, self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *what):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def replaying():
    """Each question has its recorded answers, in turn and again from the first: a new token is another one."""
    recorded, asked, wrong = {}, Counter(), []
    for *question, status, body in json.loads(RECORDED.read_text()):
        recorded.setdefault(tuple(question), []).append((status, body))

    def answer(*question):
        if question not in recorded:
            wrong.append(question)
            return 418, ""
        asked[question] += 1
        return recorded[question][(asked[question] - 1) % len(recorded[question])]

    with serving(answer) as address:
        yield address
    assert wrong == []


@contextmanager
def recording(keycloak):
    """What comes is passed on to a real one; the exchanges are written down."""
    exchanges = []

    def answer(path, form, authorization):
        headers = {"Authorization": authorization} if authorization else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(keycloak + path, form.encode(), headers)) as response:
                status, body = response.status, response.read().decode()
        except HTTPError as error:
            status, body = error.code, error.read().decode()
        exchanges.append([path, form, authorization, status, body])
        return status, body

    with serving(answer) as address:
        yield address
    RECORDED.write_text(json.dumps(exchanges, indent=1) + "\n")


@pytest.fixture(
    scope="module",
    params=["recorded", pytest.param("real", marks=pytest.mark.exhaustive("a real Keycloak instead of its answers"))],
)
def keycloak(request, tmp_path_factory):
    """The address of a Keycloak with the realm, or of what stands in for one."""
    if request.param == "recorded":
        with replaying() as address:
            yield address
        return
    with real_keycloak(tmp_path_factory.mktemp("keycloak")) as address:
        if "RECORD_EXCHANGES" not in os.environ:
            yield address
            return
        with recording(address) as relay:
            yield relay


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except OSError:
        return False


def account(keycloak, client="a-job", secret=SECRET, **more):
    return KeycloakCredentials(keycloak, "plant", client, secret, timeout_s=20, **more)


def claims(header):
    method, _, token = header.partition(" ")
    assert method == "Bearer"
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "==="))


def test_a_token_holds_the_permissions_on_pravega(keycloak):
    found = claims(account(keycloak).header)
    assert found["azp"] == "a-job" and found["aud"] == "pravega-controller"
    assert [one["rsname"] for one in found["authorization"]["permissions"]] == ["prn::*"]


def test_a_token_is_kept_until_it_is_about_to_end(keycloak, monkeypatch):
    mine, now = account(keycloak), time.monotonic()
    first = mine.header
    assert pickle.loads(pickle.dumps(mine)).header == first
    assert claims(first)["exp"] - claims(first)["iat"] == LIFESPAN_S
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: now + offset), "sleep": time.sleep})
    monkeypatch.setattr(module, "time", clock)
    offset = 0.7 * LIFESPAN_S
    assert mine.header == first
    offset = 0.9 * LIFESPAN_S
    assert mine.header != first


@pytest.mark.parametrize(
    ("client", "secret", "message"),
    [
        ("a-job", "wrong", r"refuses client 'a-job' of realm 'plant': .*HTTP 401"),
        ("a-guest", SECRET, r"refuses client 'a-guest' of realm 'plant': access_denied.*HTTP 403"),
        ("nobody", SECRET, r"refuses client 'nobody'"),
    ],
)
def test_who_may_not_is_told_so(keycloak, client, secret, message):
    with pytest.raises(BadConfigurationError, match=message) as raised:
        _ = account(keycloak, client, secret).header
    assert secret not in str(raised.value)


def test_one_that_is_away_may_come_back(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    (port,) = free_ports(1)
    with pytest.raises(RetriableError, match=f"no token from Keycloak at http://127.0.0.1:{port}: .*refused"):
        _ = account(f"http://127.0.0.1:{port}").header


def test_what_is_no_keycloak_is_told(keycloak):
    with pytest.raises(BadConfigurationError, match="HTTP 404"):
        _ = account(f"{keycloak}/elsewhere").header
    with pytest.raises(FatalError, match="gives no token: it is no Keycloak"):
        account(keycloak)._checked(b"<html>")


class Service(grpc.GenericRpcHandler):
    """A controller that knows nothing but which tokens it takes."""

    def __init__(self, takes):
        self.takes, self.seen = takes, []

    def service(self, details):
        header = dict(details.invocation_metadata).get("authorization")

        def handle(request, context):
            self.seen.append(header)
            if not self.takes(header):
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "not this one")
            return b""

        return grpc.unary_unary_rpc_method_handler(handle)


def calls(keycloak, takes):
    service = Service(takes)
    with ThreadPoolExecutor(1) as workers:
        server = grpc.server(workers, [service])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        controller = Controller(ControllerSettings(f"tcp://127.0.0.1:{port}", account(keycloak), timeout_s=20))
        try:
            return service.seen, controller.list_scopes()
        finally:
            controller.close()
            server.stop(0).wait()


def test_a_controller_sees_the_token_and_a_new_one_if_it_takes_it_no_more(keycloak):
    old = account(keycloak).header
    assert calls(keycloak, lambda header: True) == ([old], [])
    seen, _ = calls(keycloak, lambda header: header != old)
    assert seen[0] == old and len(seen) == 2 and claims(seen[1])["azp"] == "a-job"
    with pytest.raises(BadConfigurationError, match="refuses: not this one"):
        calls(keycloak, lambda header: False)


def test_the_file_that_keycloak_hands_out(keycloak, tmp_path, monkeypatch):
    path = tmp_path / "keycloak.json"
    content = {"realm": "plant", "auth-server-url": f"{keycloak}/", "ssl-required": "external", "resource": "a-job"}
    content["credentials"] = {"secret": SECRET}
    path.write_text(json.dumps(content))

    def parsed(**given):
        options = {"stream": "a/s", **given}
        return SourceOptions.from_values(SOURCE_OPTIONS.parse(options, owner="test"))

    found = parsed(keycloakFile=str(path))
    assert claims(found.connection.credentials.header)["azp"] == "a-job" and SECRET not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found
    monkeypatch.setenv("KEYCLOAK_SERVICE_ACCOUNT_FILE", str(path))
    assert parsed().connection.credentials == found.connection.credentials
    assert parsed(token="t").connection.credentials.header == "Bearer t"
    with pytest.raises(BadConfigurationError, match="'keycloakFile' can't be used with 'token'"):
        parsed(keycloakFile=str(path), token="t")
    for broken in ("{}", "no json", json.dumps({**content, "credentials": {}})):
        path.write_text(broken)
        with pytest.raises(BadConfigurationError, match="must be JSON with auth-server-url"):
            parsed()
    path.write_text(json.dumps({**content, "auth-server-url": "ldap://x"}))
    with pytest.raises(BadConfigurationError, match="is no http:// or https:// address"):
        parsed()
    with pytest.raises(BadConfigurationError, match="can't be read"):
        parsed(keycloakFile=str(tmp_path / "none"))
