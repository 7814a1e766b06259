"""Keeps secret values out of everything that is printed."""

from __future__ import annotations

from collections.abc import Callable

from penstock._plugins import find_connector
from penstock.cli._pipeline import Endpoint, Pipeline
from penstock.options import OptionSet

__all__ = ["redactor_of", "sounds_secret"]

_WORDS = ("secret", "password", "token", "credential", "accesskey", "access.key", "jaas")
#: Hiding a very short value would hide pieces of every text.
_SHORTEST = 4


def sounds_secret(name: str) -> bool:
    """Returns whether an undeclared setting looks like a secret by its name."""
    return any(word in name.lower() for word in _WORDS)


def redactor_of(pipeline: Pipeline) -> Callable[[str], str]:
    """Returns a function that replaces the pipeline's secret values in a text by ``***``."""
    found = [text for key, text in pipeline.spark.items() if sounds_secret(key)]
    found += _secrets_of(pipeline.sink, "sink")
    for source in pipeline.sources:
        found += _secrets_of(source, "source")
    # The longest first: one may be the beginning of another.
    values = sorted({text for text in found if len(text) >= _SHORTEST}, key=len, reverse=True)

    def redact(text: str) -> str:
        for value in values:
            text = text.replace(value, "***")
        return text

    return redact


def _secrets_of(endpoint: Endpoint, role: str) -> list[str]:
    declared = OptionSet()
    if endpoint.format.startswith("penstock."):
        connector = find_connector(endpoint.format).load()
        declared = (connector.source_options if role == "source" else connector.sink_options) or declared
    secret = []
    for name, text in endpoint.options.items():
        option = declared.find(name)
        if sounds_secret(name) if option is None else declared.is_secret(name):
            secret.append(text)
    return secret
