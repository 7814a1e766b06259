"""Which names are those of secrets, and where an address holds one."""

from __future__ import annotations

import re
from urllib.parse import unquote

__all__ = ["credentials_in", "sounds_secret", "without_credentials"]

_WORDS = (
    *("password", "passwd", "passphrase", "secret", "token", "credential", "jaas", "userinfo"),
    *("privatekey", "accesskey", "accountkey", "apikey", "keypem"),
)
_SEPARATORS = re.compile(r"[._\-]")
#: Scheme and what stands before the host. A user without a password may be a token. Begins at words only: otherwise
#: long values take seconds.
_USER = re.compile(r"(?<!\w)(\w*)://([^/\s,]*)@")
#: Schemes of file systems whose addresses begin with the name of a container or a user.
_PLAIN_USERS = {"abfs", "abfss", "wasb", "wasbs", "hdfs"}
#: A parameter of an address: ``?password=…``, and of JDBC's ``;password=…``.
_PARAMETER = re.compile(r"[?&;]([\w.\-]{1,100})=([^&;\s]+)")


def sounds_secret(name: str) -> bool:
    """Returns whether an undeclared setting looks like a secret by its name."""
    plain = _SEPARATORS.sub("", name.lower())
    return any(word in plain for word in _WORDS)


def credentials_in(text: str) -> list[str]:
    """Returns the parts of addresses in ``text`` that must not be shown: user and password, secret parameters."""
    found = []
    for scheme, user in _USER.findall(text):
        if ":" in user or scheme.lower() not in _PLAIN_USERS:
            name, _, password = user.partition(":")
            found += [user, password or name]
    if "://" in text or text.startswith("jdbc:"):
        found += [value for name, value in _PARAMETER.findall(text) if sounds_secret(name)]
    return [*found, *(unquote(one) for one in found if "%" in one)]


def without_credentials(text: str) -> str:
    """Returns ``text`` with ``***`` in place of what :func:`credentials_in` finds in it."""
    for secret in sorted(credentials_in(text), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
