"""An S3 server that has too much to do: it answers chosen requests with 503 SlowDown. In the process of the test."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

__all__ = ["BusyS3", "busy_s3"]

_ANSWER = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"""


class BusyS3:
    """Requests are known as ``METHOD /bucket/key?query``. Any thread."""

    def __init__(self) -> None:
        self.endpoint = ""
        #: How often each pattern of :meth:`refuse` met a request that was refused.
        self.refused: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._is_late = False
        self._lock = threading.Lock()
        self._store = DomainDispatcherApplication(create_backend_app)

    def refuse(self, *patterns: str, times: float = float("inf"), late: bool = False) -> None:
        """For each pattern, the next ``times`` requests that it matches are refused; ``late``: once they are done."""
        with self._lock:
            self._is_late = late
            self._left = dict.fromkeys(patterns, times)
            self.refused = dict.fromkeys(patterns, 0)

    def accept(self) -> None:
        """Everything, from now on."""
        with self._lock:
            self._left = {}

    def _refuses(self, request: str) -> bool:
        with self._lock:
            for pattern, left in self._left.items():
                if left and re.match(pattern, request):
                    self._left[pattern] -= 1
                    self.refused[pattern] += 1
                    return True
        return False

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """WSGI."""
        if not self._refuses(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}"):
            return self._store(environ, start_response)
        if self._is_late:
            b"".join(self._store(environ, lambda *_: None))
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(_ANSWER)))])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else _ANSWER]


@contextmanager
def busy_s3() -> Iterator[BusyS3]:
    """One on a free port of 127.0.0.1."""
    store = BusyS3()
    server = make_server("127.0.0.1", 0, store, threaded=True, request_handler=MotoRequestHandler)
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield store
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
