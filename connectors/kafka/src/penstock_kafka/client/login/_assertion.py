"""JWTs that prove who a client is, for tokens by the grant of RFC 7523."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock_kafka.config import wrong

__all__ = ["assertion"]

_PREFIX = "sasl.oauthbearer.assertion."
_ALGORITHMS = ("RS256", "ES256")
#: Of a coordinate of a signature by ES256.
_COORDINATE_BYTES = 32


def assertion(settings: Mapping[str, str]) -> Callable[[], str]:
    """Returns what makes an assertion: reads it from a file, which others renew, or signs one.

    Reads the key. Raises BadConfigurationError that names the setting at fault.
    """
    given = {name.removeprefix(_PREFIX): text for name, text in settings.items() if name.startswith(_PREFIX)}
    if path := given.get("file"):
        return lambda: _read("file", path).strip()
    algorithm = given.get("algorithm", "RS256").upper()
    if algorithm not in _ALGORITHMS:
        raise wrong(f"{_PREFIX}algorithm", f"must be {' or '.join(_ALGORITHMS)}")
    sign = _signer(given, algorithm)
    template_path = given.get("jwt.template.file")
    template = json.loads(_read("jwt.template.file", template_path)) if template_path else {}

    def signed() -> str:
        header = {"alg": algorithm, "typ": "JWT", **template.get("header", {})}
        payload = {**template.get("payload", {}), **_claims(given)}
        text = ".".join(_url_safe(json.dumps(part, separators=(",", ":")).encode()) for part in (header, payload))
        return f"{text}.{_url_safe(sign(text.encode()))}"

    return signed


def _claims(given: Mapping[str, str]) -> dict[str, Any]:
    now = int(time.time())
    claims: dict[str, Any] = {}
    for name in ("aud", "iss", "sub"):
        if text := given.get(f"claim.{name}"):
            claims[name] = text
    claims["iat"] = now
    claims["exp"] = now + int(given.get("claim.exp.seconds", "300"))
    claims["nbf"] = now - int(given.get("claim.nbf.seconds", "60"))
    if given.get("claim.jti.include", "false").lower() == "true":
        claims["jti"] = str(uuid.uuid4())
    return claims


def _signer(given: Mapping[str, str], algorithm: str) -> Callable[[bytes], bytes]:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise wrong(f"{_PREFIX}algorithm", "needs a package of its own: pip install cryptography") from None
    pem = given.get("private.key.pem") or _read("private.key.file", given.get("private.key.file", ""))
    passphrase = given.get("private.key.passphrase")
    try:
        key = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError):
        raise wrong(f"{_PREFIX}private.key.file", "or its passphrase can't be used") from None
    if algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return lambda data: key.sign(data, padding.PKCS1v15(), SHA256())
    if algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey):

        def sign(data: bytes) -> bytes:
            numbers = utils.decode_dss_signature(key.sign(data, ec.ECDSA(SHA256())))
            return b"".join(number.to_bytes(_COORDINATE_BYTES, "big") for number in numbers)

        return sign
    raise wrong(f"{_PREFIX}algorithm", f"is {algorithm}, which the private key is not for")


def _read(setting: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise wrong(f"{_PREFIX}{setting}", f"can't be read: {error}") from None


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
