"""Where a controller is, and the credentials for it."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from penstock.errors import BadConfigurationError
from penstock.tls import client_context, warn_of_unchecked
from penstock_pravega.client._keycloak import KeycloakCredentials

__all__ = ["ControllerSettings", "Credentials", "certificate_refused"]

_PLAIN, _SECURE = ("tcp", "pravega"), ("tls", "ssl", "pravegas")


@dataclass(frozen=True)
class Credentials:
    """What is sent with every request: ``method`` (Basic, Bearer) and its ``token``. The repr hides the token."""

    method: str
    token: str = field(repr=False)

    @classmethod
    def basic(cls, user: str, password: str) -> Credentials:
        """User and password."""
        return cls("Basic", base64.b64encode(f"{user}:{password}".encode()).decode())

    @property
    def header(self) -> str:
        """The value of the header *authorization*."""
        return f"{self.method} {self.token}"

    def renew(self, refused: str) -> bool:
        """Returns False: there is no other header than the one that was ``refused``."""
        return False


@dataclass(frozen=True)
class ControllerSettings:
    """``uri`` is ``tcp://host:port`` or ``tls://host:port``, several with commas. Picklable.

    ``ca_file`` (PEM) is what the servers' certificates are checked against, the system's authorities without one;
    ``validate_host`` whether their names are, too. A call may take ``timeout_s`` and is made at most ``tries`` times.
    """

    uri: str
    credentials: Credentials | KeycloakCredentials | None = None
    ca_file: str | None = None
    validate_host: bool = True
    timeout_s: float = 30.0
    tries: int = 4

    @property
    def addresses(self) -> list[str]:
        """``host:port`` of each controller. Raises BadConfigurationError."""
        return [f"{host}:{port}" for host, port in (self._split(one) for one in self.uri.split(","))]

    @property
    def is_secure(self) -> bool:
        """Whether TLS is spoken, with controller and segment stores alike. Raises BadConfigurationError."""
        schemes = {one.strip().partition("://")[0].lower() for one in self.uri.split(",") if "://" in one} or {"tcp"}
        scheme = schemes.pop()
        if schemes or scheme not in (*_PLAIN, *_SECURE):
            raise BadConfigurationError(
                f"the controller '{self.uri}' is not written as tcp://host:port or tls://host:port"
            )
        return scheme in _SECURE

    def _split(self, text: str) -> tuple[str, int]:
        text = text.strip()
        try:
            parts = urlsplit(text if "://" in text else f"tcp://{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port or parts.path not in ("", "/") or parts.username:
            raise BadConfigurationError(f"the controller '{text}' is not written as tcp://host:port or tls://host:port")
        return (f"[{host}]" if ":" in host else host), port

    @property
    def files(self) -> list[str]:
        """Paths of the files that are read when a connection is opened."""
        file = self._authorities if self.is_secure else None
        return [] if file is None else [file]

    @property
    def _authorities(self) -> str | None:
        return self.ca_file or ssl.get_default_verify_paths().cafile

    def certificates(self) -> bytes | None:
        """Returns the authorities' certificates, PEM; ``None`` if the system has no file of them."""
        # Left to itself, gRPC would trust a list of its own.
        file = self._authorities
        if file is None:
            return None
        try:
            return Path(file).read_bytes()
        except OSError as error:
            raise BadConfigurationError(f"the file of certificates {file} can't be read: {error}") from None

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns the context for connections to segment stores; ``None`` without TLS."""
        if not self.is_secure:
            return None
        try:
            context = client_context(self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise BadConfigurationError(f"the file of certificates {self.ca_file} can't be used: {error}") from None
        context.check_hostname = self.validate_host
        if not self.validate_host:
            warn_of_unchecked("tls.checkHostname=false", names_only=True)
        return context


def certificate_refused(where: str, reason: str) -> BadConfigurationError:
    """Makes the error for a certificate that is not trusted."""
    return BadConfigurationError(
        f"the certificate of {where} is refused: {reason}. Set tls.caFile to the certificate of the authority "
        "that signed it or, if only the name in it is another, tls.checkHostname to false"
    )
