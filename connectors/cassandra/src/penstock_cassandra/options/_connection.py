"""Connection settings out of options."""

from __future__ import annotations

import re

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues, parse_pairs
from penstock_cassandra.client import ConnectionSettings

__all__ = ["connection_settings", "names"]


#: A name, or an address of either version.
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:%\w+)?")


def connection_settings(values: OptionValues) -> ConnectionSettings:
    """Raises BadConfigurationError for what does not go together."""
    hosts = names(values["host"])
    if not hosts:
        raise BadConfigurationError("option 'host' is empty: name a node")
    if not all(_HOST.fullmatch(one) for one in hosts):
        # Without the value: it may hold a password.
        raise BadConfigurationError(
            "option 'host' holds more than names of hosts, with commas between: write the port as the option 'port', "
            "and user and password as 'user' and 'password'"
        )
    return ConnectionSettings(
        hosts=hosts,
        port=values["port"],
        local_dc=values["localDatacenter"] or "",
        user=values["user"] or "",
        password=values["password"] or "",
        auth_provider=values["authProvider"] or "",
        auth_config=_pairs(values),
        bundle=values["bundle"] or "",
        tls=values["tls"],
        tls_ca_file=values["tls.caFile"] or "",
        tls_cert_file=values["tls.certFile"] or "",
        tls_key_file=values["tls.keyFile"] or "",
        tls_key_password=values["tls.keyPassword"] or "",
        tls_check_hostname=values["tls.checkHostname"],
        consistency=values["consistency"],
        connect_timeout_s=values["connectTimeout"] / 1000,
        request_timeout_s=values["requestTimeout"] / 1000,
    )


def _pairs(values: OptionValues) -> str:
    text = values["authProvider.config"] or ""
    try:
        parse_pairs(text)
    except ValueError as error:
        raise BadConfigurationError(f"option 'authProvider.config' takes {error}") from None
    return text


def names(text: str | None) -> tuple[str, ...]:
    """Returns a list with commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
