"""Secret options in what Spark shows of a plan: ``explain()``, its web pages, its event log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from penstock.connector import Connector

__all__ = ["hide_secrets", "secret_pattern"]

_SETTING, _SPARKS_DEFAULT = "spark.sql.redaction.options.regex", "(?i)url"
#: Of options that stand for many names. Spark hides names with secret, password, token and accesskey by itself; it
#: looks at values as well, so there are no words here that are common in them.
_WORDS = (
    *("passwd", "passphrase", "credential", "jaas", r"user[._-]?info", r"private[._-]?key", r"api[._-]?key"),
    *(r"key[._-]?pem", r"keystore\.key", r"ssl_key", r"kinit\.cmd", r"oauthbearer\.config"),
)


def hide_secrets(spark: Any, connectors: Iterable[Connector]) -> None:
    """Makes the session show no secret option of ``connectors``, besides those that it hides already."""
    pattern, before = secret_pattern(connectors), str(spark.conf.get(_SETTING, _SPARKS_DEFAULT))
    if pattern not in before:
        spark.conf.set(_SETTING, f"(?:{before})|{pattern}" if before else pattern)


def secret_pattern(connectors: Iterable[Connector]) -> str:
    """Returns a regular expression, Java's as well as Python's, that finds itself in the name of a secret option."""
    declared = [made for one in connectors for made in (one.source_options, one.sink_options) if made is not None]
    names = {name for options in declared for option in options if option.secret for name in option.names}
    return f"(?i:^(?:{'|'.join(re.escape(name) for name in sorted(names))})$|{'|'.join(_WORDS)})"
