"""TLS of clients, for all connectors: which versions they speak, and what is said when a check is switched off."""

from __future__ import annotations

import ssl

from penstock.options import warn_once

__all__ = ["client_context", "refuse_old_versions", "warn_of_unchecked"]


def client_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Returns a context that checks certificates and host names. Reads the file.

    ``ca_file`` (PEM) holds the authorities that are trusted; the system's are without one. Raises OSError and
    ssl.SSLError for a file that can't be used.
    """
    return refuse_old_versions(ssl.create_default_context(cafile=ca_file or None))


def refuse_old_versions(context: ssl.SSLContext) -> ssl.SSLContext:
    """Returns ``context``, with TLS 1.2 as its oldest version, unless the system demands a newer one."""
    # Python leaves the choice to the system's OpenSSL where it was built so, as several distributions do.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    return context


def warn_of_unchecked(option: str, *, names_only: bool) -> None:
    """Logs, once in a process, that ``option`` (as ``name=value``) switches a check off, and what that permits.

    ``names_only``: certificates are still checked, and only the names in them are not.
    """
    who = "a server with any certificate of a trusted authority" if names_only else "any server"
    warn_once(f"{option}: {who} can pose as the one you mean, read what is sent, password included, and change it")
