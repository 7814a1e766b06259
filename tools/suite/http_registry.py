"""A server of JSON in this process, for stand-ins of schema registries."""

from __future__ import annotations

import base64
import json
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["HttpRegistry"]


class HttpRegistry(ABC):
    """Answers requests. ``failing`` is a status that every request is answered with, ``body`` a body, ``redirect``
    an address that every request is sent to.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.failing = 0
        self.user_info: str | None = None
        self.body: bytes | None = None
        self.redirect = ""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                path = [unquote(part) for part in parts.path.strip("/").split("/")]
                registry.requests.append(f"{self.command} {'/'.join(path)}")
                body = json.loads(data) if data else None
                status, value = registry.respond(
                    self.command, path, dict(parse_qsl(parts.query)), body, self.headers.get("Authorization")
                )
                if registry.redirect:
                    status, value = 302, {}
                text = registry.body or (value if isinstance(value, bytes) else json.dumps(value).encode())
                self.send_response(status)
                if registry.redirect:
                    self.send_header("Location", registry.redirect + self.path)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self.server.shutdown()
        self.server.server_close()

    def respond(
        self, method: str, path: list[str], query: dict[str, str], body: Any, authorization: str | None
    ) -> tuple[int, Any]:
        """Returns status and body for a request, after the user was checked."""
        if self.failing:
            return self.failing, {"error_code": self.failing, "message": "as the test says"}
        if self.user_info and authorization != f"Basic {base64.b64encode(self.user_info.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        return self.answer(method, path, query, body)

    @abstractmethod
    def answer(self, method: str, path: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Returns status and body for a request."""
