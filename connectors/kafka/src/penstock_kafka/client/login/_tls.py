"""TLS contexts from librdkafka's ``ssl.*`` and ``https.*`` properties."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from penstock.errors import BadConfigurationError
from penstock.tls import refuse_old_versions
from penstock_kafka.config import wrong

__all__ = ["https_context", "ssl_context"]

_T = TypeVar("_T")


def ssl_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Returns a client's context that trusts, presents and verifies what ``settings`` say.

    Reads files. A certificate given as text or in a PKCS#12 store passes through a private file that is gone when
    this returns. Raises BadConfigurationError that names the setting at fault.
    """
    context = refuse_old_versions(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    _trust(context, settings, "ssl.ca")
    if path := settings.get("ssl.crl.location"):
        _loaded("ssl.crl.location", lambda: context.load_verify_locations(path))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if ciphers := settings.get("ssl.cipher.suites"):
        _loaded("ssl.cipher.suites", lambda: context.set_ciphers(ciphers))
    _present(context, settings)
    return context


def https_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context for the address that gives out tokens (``https.ca.*``). Raises as :func:`ssl_context`."""
    context = refuse_old_versions(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    _trust(context, settings, "https.ca")
    return context


def _trust(context: ssl.SSLContext, settings: Mapping[str, str], prefix: str) -> None:
    location, pem = settings.get(f"{prefix}.location"), settings.get(f"{prefix}.pem")
    if location and location != "probe":
        if os.path.isdir(location):
            _loaded(f"{prefix}.location", lambda: context.load_verify_locations(capath=location))
        else:
            _loaded(f"{prefix}.location", lambda: context.load_verify_locations(cafile=location))
    elif pem:
        _loaded(f"{prefix}.pem", lambda: context.load_verify_locations(cadata=pem))
    else:
        context.load_default_certs()


def _present(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """The client's own certificate and key, if there are any."""
    # Without a password OpenSSL would ask for one on the terminal.
    password = settings.get("ssl.key.password", "")
    if certificate := settings.get("ssl.certificate.location"):
        key = settings.get("ssl.key.location")
        if not key and not settings.get("ssl.key.pem"):
            raise wrong("ssl.key.location", "is missing: 'kafka.ssl.certificate.location' needs its key")
        if key:
            _loaded("ssl.certificate.location", lambda: context.load_cert_chain(certificate, key, lambda: password))
            return
    if store := settings.get("ssl.keystore.location"):
        pem = _loaded("ssl.keystore.location", lambda: _of_pkcs12(store, settings.get("ssl.keystore.password")))
        _load_text(context, "ssl.keystore.location", pem, "")
    elif settings.get("ssl.certificate.pem") or certificate:
        texts = [_text(settings, "ssl.certificate"), _text(settings, "ssl.key")]
        _load_text(context, "ssl.certificate.pem", "".join(texts).encode(), password)


def _text(settings: Mapping[str, str], prefix: str) -> str:
    if pem := settings.get(f"{prefix}.pem"):
        return pem if pem.endswith("\n") else pem + "\n"
    path = settings.get(f"{prefix}.location")
    if not path:
        raise wrong(f"{prefix}.pem", "is missing: a client's certificate and its key belong together")
    return _loaded(f"{prefix}.location", lambda: Path(path).read_text() + "\n")


def _load_text(context: ssl.SSLContext, setting: str, pem: bytes, password: str) -> None:
    """Loads certificate and key from text, by way of a file: the ssl module takes them in no other way."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        path = os.path.join(directory, "client.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        _loaded(setting, lambda: context.load_cert_chain(path, password=lambda: password))


def _of_pkcs12(path: str, password: str | None) -> bytes:
    """Certificates and the key of a PKCS#12 store, as PEM."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise wrong(
            "ssl.keystore.location",
            "is a PKCS12 store, which the driver's client reads with a package of its own: pip install cryptography; "
            "or write 'kafka.ssl.certificate.location' and 'kafka.ssl.key.location' (PEM)",
        ) from None
    store = load_pkcs12(Path(path).read_bytes(), password.encode() if password else None)
    if store.key is None or store.cert is None:
        raise ValueError("no certificate with a key in it")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificates = [store.cert, *store.additional_certs]
    return key + b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates)


def _loaded(setting: str, load: Callable[[], _T]) -> _T:
    try:
        return load()
    except BadConfigurationError:
        raise
    except (OSError, ValueError) as error:
        # OpenSSL's and the system's words; they hold file names, no contents.
        raise wrong(setting, f"can't be used: {error}") from None
