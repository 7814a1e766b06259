"""Secret options in what Spark shows of a plan: ``explain()``, its web pages, its event log.

A Connect server also shows requests, in which nothing is hidden by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from penstock.connector import Connector
from penstock.options import DEAD_LETTER_PREFIX

__all__ = ["hide_secrets", "request_pattern", "secret_pattern"]

_OF_REQUESTS = "spark.sql.redaction.string.regex"
_SETTING, _SPARKS_DEFAULT = "spark.sql.redaction.options.regex", "(?i)url"
_SPARKS_WORDS = ("secret", "password", "token", r"access[.]?key")
#: Of options that stand for many names. Spark hides names with secret, password, token and accesskey by itself; it
#: looks at values as well, so there are no words here that are common in them.
_WORDS = (
    *("passwd", "passphrase", "credential", "jaas", r"user[._-]?info", r"private[._-]?key", r"api[._-]?key"),
    *(r"key[._-]?pem", r"keystore\.key", r"ssl_key", r"kinit\.cmd", r"oauthbearer\.config"),
)


def hide_secrets(spark: Any, connectors: Iterable[Connector], *, over_connect: bool) -> None:
    """Makes the session show no secret option of ``connectors``, besides those that it hides already."""
    connectors = list(connectors)
    if not over_connect:
        _add(spark, _SETTING, _SPARKS_DEFAULT, secret_pattern(connectors), spark.conf.set)
        return

    def set_anywhere(setting: str, text: str) -> None:
        # A definition file of a declarative pipeline may not call conf.set, because settings may change results.
        spark.conf._set_all({setting: text}, silent=False)

    _add(spark, _SETTING, _SPARKS_DEFAULT, secret_pattern(connectors), set_anywhere)
    _add(spark, _OF_REQUESTS, "", request_pattern(connectors), set_anywhere)


def _add(spark: Any, setting: str, default: str, pattern: str, put: Callable[[str, str], None]) -> None:
    before = str(spark.conf.get(setting, default) or "")
    if pattern not in before:
        put(setting, f"(?:{before})|{pattern}" if before else pattern)


def request_pattern(connectors: Iterable[Connector]) -> str:
    """Returns a regular expression that finds secret options in a request as text, name and value."""
    words = "|".join((*_SPARKS_WORDS, *_WORDS))
    named = f'key: "(?:(?:{_declared(connectors)})|[^"]*(?:{words})[^"]*)"'
    return rf'(?i:{named}\s+value: "[^"\\]*(?:\\.[^"\\]*)*")'


def secret_pattern(connectors: Iterable[Connector]) -> str:
    """Returns a regular expression, Java's as well as Python's, that finds itself in the name of a secret option."""
    return f"(?i:^(?:{_declared(connectors)})$|{'|'.join(_WORDS)})"


def _declared(connectors: Iterable[Connector]) -> str:
    sides = [made for one in connectors for made in (one.source_options, one.sink_options) if made is not None]
    names = {name for options in sides for option in options if option.secret for name in option.names}
    # The sink of dead letters has the same ones, by longer names.
    prefix = re.escape(DEAD_LETTER_PREFIX)
    return f"(?:{prefix})?(?:{'|'.join(re.escape(name) for name in sorted(names))})"
