"""Keeps secret values out of everything that is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote, quote_plus

from penstock._plugins import find_connector
from penstock.cli._pipeline import Endpoint, Pipeline
from penstock.options import OptionSet, credentials_in, sounds_secret
from penstock.printable import printable

__all__ = ["redactor_of", "redactor_of_options"]

#: Hiding a very short value would hide pieces of every text.
_SHORTEST = 4
_IN_QUOTES = re.compile(r"""=\s*["']([^"']+)["']""")


def redactor_of(pipeline: Pipeline) -> Callable[[str], str]:
    """Returns a function that replaces the pipeline's secret values in a text by ``***``: as they are, and as a client
    that repeats its settings in an error may write them.
    """
    found = [text for key, text in pipeline.spark.items() if sounds_secret(key)]
    for sink in pipeline.sinks:
        found += _secrets_of(sink, "sink")
    for source in pipeline.sources:
        found += _secrets_of(source, "source")
    for options in (pipeline.spark, *(endpoint.options for endpoint in (*pipeline.sinks, *pipeline.sources))):
        for text in options.values():
            found += credentials_in(text)
    return _hiding(found)


def redactor_of_options(options: Mapping[str, str]) -> Callable[[str], str]:
    """Returns a function that does so with the values of options whose names sound secret, whichever they belong to."""
    found = [text for name, text in options.items() if sounds_secret(name)]
    return _hiding([*found, *(one for text in options.values() for one in credentials_in(text))])


def _hiding(found: Iterable[str]) -> Callable[[str], str]:
    # The longest first: one may be the beginning of another.
    values = sorted({form for text in found for form in _forms(text) if len(form) >= _SHORTEST}, key=len, reverse=True)

    def redact(text: str) -> str:
        for value in values:
            text = text.replace(value, "***")
        return text

    return redact


def _secrets_of(endpoint: Endpoint, role: str) -> list[str]:
    declared = OptionSet()
    if endpoint.is_ours:
        connector = find_connector(endpoint.format).load()
        declared = (connector.source_options if role == "source" else connector.sink_options) or declared
    secret = []
    for name, text in endpoint.options.items():
        option = declared.find(name)
        if sounds_secret(name) if option is None else declared.is_secret(name):
            secret.append(text)
    return secret


def _forms(text: str) -> tuple[str, ...]:
    lines = [line.strip() for line in text.splitlines()]
    lines += _IN_QUOTES.findall(text)  # as in JAAS
    quoted = (repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    encoded = (quote(text), quote(text, safe=""), quote_plus(text))
    return (text, text.strip(), printable(text), *quoted, *encoded, *lines)
