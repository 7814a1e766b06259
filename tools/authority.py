"""Certificates for servers that are started by tests."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

__all__ = ["Authority"]


_A_MONTH = datetime.timedelta(30)


class Authority:
    """Signs certificates."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extension: x509.ExtensionType,
        until: datetime.timedelta = _A_MONTH,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - _A_MONTH).not_valid_after(now + until)
        return builder.add_extension(extension, critical=True).sign(self._key, hashes.SHA256())

    def write(self, path: Path) -> Path:
        """The authority's own certificate, for those who trust it."""
        path.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        return path

    def issue(
        self, path: Path, name: x509.GeneralName, password: str | None = None, *, until: datetime.timedelta = _A_MONTH
    ) -> Path:
        """A certificate for ``name`` and, before it, its key. It is valid from a month ago, ``until`` from now on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, str(name))])
        signed = self._signed(subject, key, x509.SubjectAlternativeName([name]), until)
        cipher = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher)
        path.write_bytes(private + signed.public_bytes(Encoding.PEM))
        return path
