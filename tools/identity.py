"""A provider of identities for tests: real JWTs, their keys as a JWKS, and what stands in for vendors' endpoints."""

from __future__ import annotations

import base64
import importlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["SECRET", "IdentityProvider", "stand_in"]

SECRET = "id-s3cr3t"
AUDIENCE = "kafka"


class IdentityProvider:
    """Listens on 127.0.0.1 while it is entered. Any thread.

    ``/jwks`` has the key; ``/token`` gives tokens to the client ``alice`` (POST, client credentials); ``/azure`` is a
    managed identity's endpoint, ``/computeMetadata/…/identity`` that of Google's machines. ``lasts_s`` is the life of
    the tokens, ``given`` counts them, and while ``is_away`` every question is answered with 503.
    """

    def __init__(self) -> None:
        self.lasts_s = 300.0
        self.given = 0
        self.is_away = False
        self._key = rsa.generate_private_key(65537, 2048)
        self._other = rsa.generate_private_key(65537, 2048)

    def __enter__(self) -> IdentityProvider:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("")

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def _answer(self, form: str) -> None:
                status, body = provider._answer(self.path, form, dict(self.headers))
                self.send_response(status)
                self.send_header("Metadata-Flavor", "Google")
                is_text = isinstance(body, str)
                self.send_header("Content-Type", "text/html" if is_text else "application/json")
                data = (body if is_text else json.dumps(body)).encode()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def token(self, *, lasts_s: float | None = None, by_another: bool = False, **claims: Any) -> str:
        """Returns a new token. One that is signed ``by_another`` key must be refused."""
        self.given += 1
        now = time.time()
        whole = {"sub": "alice", "iss": self.url, "aud": AUDIENCE, "scope": "kafka", "iat": int(now), **claims}
        # Kafka takes whole seconds.
        whole["exp"] = int(now + (self.lasts_s if lasts_s is None else lasts_s))
        parts = [{"alg": "RS256", "typ": "JWT", "kid": "k1"}, whole]
        text = ".".join(_url_safe(json.dumps(part).encode()) for part in parts)
        key = self._other if by_another else self._key
        return f"{text}.{_url_safe(key.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"

    def _answer(self, path: str, form: str, headers: dict[str, str]) -> tuple[int, Any]:
        place = urlsplit(path)
        if place.path == "/jwks":
            numbers = self._key.public_key().public_numbers()
            n, e = (_url_safe(each.to_bytes((each.bit_length() + 7) // 8, "big")) for each in (numbers.n, numbers.e))
            return 200, {"keys": [{"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "n": n, "e": e}]}
        if self.is_away:
            return 503, {}
        if place.path == "/token":
            wanted = "Basic " + base64.b64encode(f"alice:{SECRET}".encode()).decode()
            if headers.get("Authorization") != wanted:
                return 401, {"error": "invalid_client"}
            return 200, {"access_token": self.token(), "expires_in": self.lasts_s, "token_type": "Bearer"}
        if place.path == "/azure":
            if headers.get("X-Identity-Header", headers.get("X-IDENTITY-HEADER")) != SECRET:
                return 400, {"error": "invalid_request", "error_description": "no identity has this header"}
            audience = parse_qs(place.query)["resource"][0]
            ends = int(time.time() + self.lasts_s)
            return 200, {"access_token": self.token(aud=audience), "expires_on": str(ends), "token_type": "Bearer"}
        if place.path.endswith("/identity"):
            return 200, self.token(aud=parse_qs(place.query)["audience"][0])
        if place.path.endswith("/token"):
            ends = int(self.lasts_s)
            return 200, {"access_token": "access-of-google", "expires_in": ends, "token_type": "Bearer"}
        if place.path.startswith("/computeMetadata") or place.path == "/":
            return 200, {"email": "alice@project.iam.gserviceaccount.com", "scopes": [], "aliases": ["default"]}
        return 404, {}


def stand_in(identity: IdentityProvider, set_variable: Callable[[str, str], object]) -> None:
    """Lets the libraries of Azure and Google find ``identity`` where they look for the endpoints of their machines."""
    set_variable("IDENTITY_ENDPOINT", f"{identity.url}/azure")
    set_variable("IDENTITY_HEADER", SECRET)
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
        set_variable(name, identity.host)
    # Google's library reads them once, when it is imported.
    importlib.reload(importlib.import_module("google.auth.compute_engine._metadata"))


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
