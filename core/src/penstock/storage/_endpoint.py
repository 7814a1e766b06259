"""What is at a store's endpoint, where no store answers."""

from __future__ import annotations

from urllib.parse import urlsplit

from penstock.error_codes import STORE_AWAY
from penstock.errors import BadConfigurationError, PenstockError, RetriableError
from penstock.options import names_http_server
from penstock.reach import look_at

__all__ = ["check_endpoint", "no_answer"]

_PORTS = {"http": 80, "https": 443}


def check_endpoint(endpoint: str, option: str) -> None:
    """Raises BadConfigurationError if ``endpoint``, the value of ``option``, is not written as an address."""
    if not names_http_server(endpoint):
        # Without the value: what is not understood may hold a password.
        raise BadConfigurationError(
            f"option '{option}' is not an address: write http://host:port or https://host:port", error_code=STORE_AWAY
        )


def no_answer(where: str, endpoint: str, option: str, said: str) -> PenstockError:
    """Returns the error for a request about ``where`` that ``endpoint`` did not answer as a store: in the client's own
    words, ``said``, or what is seen there. ``option`` is what names the endpoint.
    """
    parts = urlsplit(endpoint)
    address = f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme, 443)}"
    seen = look_at(address, tls=parts.scheme == "https", protocol="HTTP")
    if seen is None:
        return RetriableError(f"{where}: {said}; check {option}, or try again", error_code=STORE_AWAY)
    if seen.may_pass:
        text = f"{where}: no answer: {seen.text}. Correct {option}, or try again once the store answers"
        return RetriableError(text, error_code=STORE_AWAY)
    advice = {"tls": f"write https:// in {option}", "plain": f"write http:// in {option}"}
    return BadConfigurationError(
        f"{where}: {seen.text}: {advice.get(seen.kind, f'correct {option}')}", error_code=STORE_AWAY
    )
