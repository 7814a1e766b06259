"""Requests to services that give out tokens: they carry a secret, so they go where the user said and nowhere else."""

from __future__ import annotations

import ssl
from http.client import HTTPException
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

__all__ = ["ask_for_token"]

#: Tokens have a few kilobytes.
_MOST_BYTES = 1 << 20


def ask_for_token(request: Request, *, timeout_s: float, context: ssl.SSLContext | None = None) -> bytes:
    """Returns the answer to ``request``, an http or https one. ``context`` is for the latter.

    Follows no redirect: it would take the secret to an address that the user has not named, perhaps without TLS.
    Raises urllib.error.HTTPError for a status other than 2xx, redirects included, URLError or another OSError where
    no answer comes, and ValueError for one of more than 1 MB.
    """
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        HTTPHandler(),
        HTTPSHandler(context=context),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
        UnknownHandler(),
    ):
        opener.add_handler(handler)
    try:
        with opener.open(request, timeout=timeout_s) as response:
            answer: bytes = response.read(_MOST_BYTES + 1)
    except HTTPException as error:
        raise ConnectionError(f"what answers does not speak HTTP: {error!r}") from error
    if len(answer) > _MOST_BYTES:
        raise ValueError(f"the answer has more than {_MOST_BYTES} bytes")
    return answer
