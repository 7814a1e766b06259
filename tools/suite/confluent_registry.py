"""A small schema registry with the part of Confluent's HTTP interface that is used."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["Registry"]


class Registry:
    """Subjects and schemas in memory, behind HTTP. ``failing`` is a status that every request is answered with."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[int]] = {}
        self.schemas: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.failing = 0
        self.user_info: str | None = None
        self.body: bytes | None = None
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                path = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
                registry.requests.append(f"{self.command} {'/'.join(path)}")
                status, value = registry.answer(self.command, path, body, self.headers.get("Authorization"))
                data = registry.body or json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

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

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """Returns the id of a schema, which the subject has afterwards."""
        entry = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if entry not in self.schemas:
            self.schemas.append(entry)
        schema_id = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: list[str], body: Any, authorization: str | None) -> tuple[int, Any]:
        """Returns status and body for a request."""
        if self.failing:
            return self.failing, {"error_code": self.failing, "message": "as the test says"}
        if self.user_info and authorization != f"Basic {base64.b64encode(self.user_info.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        entry = {key: body[key] for key in ("schema", "references", "schemaType") if body.get(key)} if body else {}
        if entry.get("schemaType") == "AVRO":
            del entry["schemaType"]  # the one that is not named
        if path[0] == "schemas":
            known = 0 < int(path[2]) <= len(self.schemas)
            return (200, self.schemas[int(path[2]) - 1]) if known else (404, {"error_code": 40403, "message": "no id"})
        subject = path[1]
        if method == "POST" and path[-1] == "versions":
            return 200, {"id": self.register(subject, entry.pop("schema"), **entry)}
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": "no subject"}
        if method == "POST":
            found = [i for i in versions if self.schemas[i - 1] == entry]
            if not found:
                return 404, {"error_code": 40403, "message": "no schema"}
            return 200, self.described(subject, found[0])
        return 200, self.described(subject, versions[-1] if path[-1] == "latest" else versions[int(path[-1]) - 1])

    def described(self, subject: str, schema_id: int) -> dict[str, Any]:
        """Returns a version of a subject."""
        version = self.subjects[subject].index(schema_id) + 1
        return {"subject": subject, "id": schema_id, "version": version, **self.schemas[schema_id - 1]}
