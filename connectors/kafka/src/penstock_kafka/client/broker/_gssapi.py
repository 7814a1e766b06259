"""Kerberos for kafka-python: by a key tab, or by the tickets that the process has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from penstock_kafka.config import wrong

__all__ = ["KerberosLogin"]

_INSTALL = "pip install 'penstock-kafka[kerberos]'"


class KerberosLogin:
    """A principal with its key tab, and the name of the brokers' service. Any thread."""

    def __init__(self, service: str, principal: str | None, keytab: str | None) -> None:
        self.service = service
        self._principal = principal
        self._keytab = keytab

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> KerberosLogin:
        """Returns the login of ``sasl.kerberos.*``. Raises BadConfigurationError where a library is missing."""
        try:
            import gssapi  # noqa: F401 - is it there
        except (ImportError, OSError):
            raise wrong("sasl.mechanism", f"is GSSAPI (Kerberos), which needs a package: {_INSTALL}") from None
        principal, keytab = settings.get("sasl.kerberos.principal"), settings.get("sasl.kerberos.keytab")
        if keytab and not principal:
            raise wrong("sasl.kerberos.principal", "is missing: a key tab may hold the keys of several")
        return cls(settings.get("sasl.kerberos.service.name", "kafka"), principal, keytab)

    def __repr__(self) -> str:
        return f"KerberosLogin({self.service!r}, {self._principal!r}, {self._keytab!r})"

    def context(self, host: str) -> Any:
        """Returns a security context for the service at ``host``. Raises SaslAuthenticationFailedError.

        With a key tab the tickets are got by it and kept in memory, apart from those of the process. Without one they
        are those of the process's ticket cache, which something else renews.
        """
        import gssapi

        try:
            target = gssapi.Name(f"{self.service}@{host}", name_type=gssapi.NameType.hostbased_service)
            return gssapi.SecurityContext(
                name=target.canonicalize(gssapi.MechType.kerberos), creds=self._credentials(), usage="initiate"
            )
        except gssapi.exceptions.GSSError as error:
            raise _refused(error) from None

    def _credentials(self) -> Any:
        import gssapi

        name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
        if self._keytab is None:
            return gssapi.Credentials(name=name, usage="initiate") if name else None
        store = {"client_keytab": self._keytab, "ccache": f"MEMORY:penstock-{id(self)}"}
        return gssapi.Credentials(name=name, usage="initiate", store=store)


class _Kerberos(SaslMechanismGSSAPI):  # type: ignore[misc]  # untyped
    """kafka-python's exchange, with credentials of its own. Another user of kafka-python gets what it always had."""

    def __init__(self, **config: Any) -> None:
        login = config.get("sasl_kerberos_name")
        if not isinstance(login, KerberosLogin):
            super().__init__(**config)
            return
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service}@{config['host']}"
        self._client_ctx = login.context(config["host"])
        self._next_token = self._stepped(None)

    def _stepped(self, token: bytes | None) -> Any:
        import gssapi

        try:
            return self._client_ctx.step(token)
        except gssapi.exceptions.GSSError as error:
            raise _refused(error) from None

    def receive(self, auth_bytes: bytes) -> None:
        if not self._client_ctx.complete:
            self._next_token = self._stepped(auth_bytes)
        else:
            super().receive(auth_bytes)


def _refused(error: Exception) -> SaslAuthenticationFailedError:
    return SaslAuthenticationFailedError(f"Kerberos: {' '.join(str(error).split())}")


register_sasl_mechanism("GSSAPI", _Kerberos, overwrite=True)
