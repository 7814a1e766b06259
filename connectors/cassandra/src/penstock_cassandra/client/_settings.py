"""How to connect: checked values, without a connection."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from penstock.errors import BadConfigurationError
from penstock.tls import client_context, warn_of_unchecked

__all__ = ["ConnectionSettings"]


@dataclass(frozen=True)
class ConnectionSettings:
    """Where the cluster is and who we are. Picklable; the repr has no secrets. Times in seconds.

    ``bundle`` is the path of a cloud's secure connect bundle, in place of ``hosts`` and TLS. Consistency levels are
    CQL's names. ``auth_provider`` (``module:Class``) is in place of user and password; ``auth_config`` are its pairs.
    ``local_dc`` empty: nodes of any data centre are asked.
    """

    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = 9042
    local_dc: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    auth_provider: str = ""
    auth_config: str = field(default="", repr=False)
    bundle: str = ""
    tls: bool = False
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_key_password: str = field(default="", repr=False)
    tls_check_hostname: bool = True
    consistency: str = "LOCAL_ONE"
    serial_consistency: str = "LOCAL_SERIAL"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0

    @property
    def where(self) -> str:
        """The cluster, in words for errors."""
        return f"bundle {self.bundle}" if self.bundle else f"{','.join(self.hosts)}, port {self.port}"

    @property
    def files(self) -> list[str]:
        """Paths of the files that are read when a connection is opened."""
        return [one for one in (self.bundle, self.tls_ca_file, self.tls_cert_file, self.tls_key_file) if one]

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns the driver's TLS context. Raises BadConfigurationError that names the option of an unusable file."""
        if not self.tls:
            return None
        try:
            context = client_context(self.tls_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise BadConfigurationError(f"option 'tls.caFile': {self.tls_ca_file} can't be used: {error}") from error
        try:
            if self.tls_cert_file:
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file or None, lambda: self.tls_key_password)
        except (OSError, ssl.SSLError) as error:
            raise BadConfigurationError(
                f"options 'tls.certFile', 'tls.keyFile' and 'tls.keyPassword': {self.tls_cert_file} and its key can't "
                f"be used: {error}"
            ) from error
        context.check_hostname = self.tls_check_hostname
        if not self.tls_check_hostname:
            warn_of_unchecked("tls.checkHostname=false", names_only=True)
        return context
