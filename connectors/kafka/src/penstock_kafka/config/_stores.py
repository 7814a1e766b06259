"""Certificates and keys: the Java client's trust and key stores as what librdkafka reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock_kafka.config._rules import wrong

__all__ = ["STORE_SETTINGS", "stray_settings", "translate_stores"]

_SETTINGS = """
    ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.truststore.certificates
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.keystore.certificate.chain ssl.keystore.key
    ssl.key.password ssl.key.pem ssl.certificate.pem ssl.ca.pem
"""
#: What this module translates; the caller passes all of them in and takes the result instead.
STORE_SETTINGS = frozenset(_SETTINGS.split())
_BY_ENDING = {"p12": "PKCS12", "pfx": "PKCS12", "pem": "PEM", "crt": "PEM", "cer": "PEM"}
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def translate_stores(given: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's ``ssl.ca.*``, ``.certificate.*``, ``.key.*`` and ``.keystore.*`` for :data:`STORE_SETTINGS`.

    PEM stores become locations, PEM texts become ``….pem`` (their lines restored, if they came as one). A PKCS#12 key
    store is read by librdkafka itself. JKS stores, and PKCS#12 trust stores, can't be read: BadConfigurationError with
    the command that converts them.
    """
    return {**_trust(given), **_identity(given), **_pem_texts(given)}


def stray_settings(given: Mapping[str, str]) -> list[str]:
    """Types and passwords of stores that are not there."""
    contents = {"truststore": ("location", "certificates"), "keystore": ("location", "certificate.chain", "key")}
    return [
        name
        for store, parts in contents.items()
        if not any(given.get(f"ssl.{store}.{part}") for part in parts)
        for name in (f"ssl.{store}.type", f"ssl.{store}.password")
        if name in given
    ]


def _trust(given: Mapping[str, str]) -> dict[str, str]:
    location = given.get("ssl.truststore.location")
    if not location:
        return {}
    kind = _type_of(location, given.get("ssl.truststore.type"))
    if kind == "PEM":
        return {"ssl.ca.location": location}
    pem = _sibling(location, "-ca.pem")
    if kind == "PKCS12":
        commands = f"openssl pkcs12 -in '{location}' -nokeys -out '{pem}'"
    else:
        p12 = _sibling(location, ".p12")
        commands = f"{_jks_to_p12(location, p12)} && openssl pkcs12 -in '{p12}' -nokeys -out '{pem}'"
    raise wrong(
        "ssl.truststore.location",
        f"is a {kind} store, which this client can't read. Convert it once with: {commands} — and write "
        f"kafka.ssl.ca.location={pem} instead of the truststore settings{_hint(given, 'truststore')}",
    )


def _identity(given: Mapping[str, str]) -> dict[str, str]:
    location = given.get("ssl.keystore.location")
    key_password = given.get("ssl.key.password")
    if not location:
        return {} if key_password is None else {"ssl.key.password": key_password}
    kind = _type_of(location, given.get("ssl.keystore.type"))
    if kind == "PEM":
        found = {"ssl.certificate.location": location, "ssl.key.location": location}
        return found if key_password is None else {**found, "ssl.key.password": key_password}
    if kind != "PKCS12":
        p12 = _sibling(location, ".p12")
        raise wrong(
            "ssl.keystore.location",
            f"is a {kind} store, which this client can't read. Convert it once with: {_jks_to_p12(location, p12)} — "
            f"and write kafka.ssl.keystore.location={p12}, kafka.ssl.keystore.type=PKCS12{_hint(given, 'keystore')}",
        )
    store_password = given.get("ssl.keystore.password")
    if key_password is not None and key_password != store_password:
        raise wrong(
            "ssl.key.password", "differs from that of the PKCS12 key store: write 'kafka.ssl.keystore.password' only"
        )
    found = {"ssl.keystore.location": location}
    return found if store_password is None else {**found, "ssl.keystore.password": store_password}


def _pem_texts(given: Mapping[str, str]) -> dict[str, str]:
    names = {
        "ssl.truststore.certificates": "ssl.ca.pem",
        "ssl.keystore.certificate.chain": "ssl.certificate.pem",
        "ssl.keystore.key": "ssl.key.pem",
    }
    found: dict[str, str] = {}
    for name in (*names, *names.values()):
        if not given.get(name):
            continue
        target = names.get(name, name)
        pem = _mend_lines(name, given[name])
        if found.setdefault(target, pem) != pem:
            raise wrong(name, f"and 'kafka.{target}' are the same setting with two values: write one of them")
    return found


def _mend_lines(name: str, text: str) -> str:
    """PEM blocks with line ends where OpenSSL wants them: settings often are one line, or spell ``\\n`` out."""
    blocks = []
    for match in _PEM.finditer(text.replace("\\n", "\n")):
        kind, body = match.group(1), match.group(2)
        if ":" not in body:  # Proc-Type headers of old encrypted keys depend on their lines
            packed = "".join(body.split())
            body = "\n" + "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64)) + "\n"
        blocks.append(f"-----BEGIN {kind}-----{body}-----END {kind}-----\n")
    if not blocks:
        raise wrong(name, "holds no PEM block, from -----BEGIN …----- to -----END …-----")
    return "".join(blocks)


def _type_of(location: str, declared: str | None) -> str:
    """Returns the type of a store; without a word on it that of its name's ending, else JKS as in Java."""
    return (declared or _BY_ENDING.get(location.rpartition(".")[2].lower(), "JKS")).strip().upper()


def _hint(given: Mapping[str, str], store: str) -> str:
    if f"ssl.{store}.type" in given:
        return ""
    return f" (if it is no JKS file, say so: kafka.ssl.{store}.type=PKCS12 or PEM)"


def _jks_to_p12(source: str, target: str) -> str:
    return f"keytool -importkeystore -srckeystore '{source}' -destkeystore '{target}' -deststoretype PKCS12"


def _sibling(location: str, ending: str) -> str:
    directory, slash, name = location.rpartition("/")
    return f"{directory}{slash}{name.rpartition('.')[0] or name}{ending}"
