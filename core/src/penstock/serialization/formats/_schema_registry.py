"""A schema registry, to the formats: schemas by the keys that records name, and keys of schemas to write with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization._malformed import shortened
from penstock.serialization.formats._apicurio import ApicurioClient
from penstock.serialization.formats._confluent import ConfluentClient
from penstock.serialization.formats._framing import Framing, GlueFraming, NumberFraming
from penstock.serialization.formats._glue import GlueClient
from penstock.serialization.formats._rows import Misfit
from penstock.serialization.formats._schemas import Reference, SchemaClient, SchemaKey, SchemaLanguage, StoredSchema

__all__ = ["SchemaRegistry", "subject_of", "uses_registry"]

Schema = TypeVar("Schema")

#: How long an id counts as unknown. Garbage that looks like ids must not become a request each.
_UNKNOWN_SECONDS = 30.0
_UNKNOWN_IDS = 10_000


def uses_registry(options: OptionValues) -> bool:
    """Returns whether records name their schemas by the keys of a registry."""
    return options["schema.registry.url"] is not None or options["schema.registry.type"] != "confluent"


def _of_type(options: OptionValues) -> tuple[SchemaClient, Framing]:
    if options["schema.registry.type"] == "glue":
        return GlueClient(options), GlueFraming()
    if options["schema.registry.type"] == "apicurio":
        return ApicurioClient(options), NumberFraming(int(options["schema.registry.id.bytes"]))
    return ConfluentClient(options), NumberFraming()


class SchemaRegistry(Generic[Schema]):
    """Looks schemas of one language up and registers them. Pickled with the schemas it has met, without its connection.

    Memory is bounded by the number of schemas in use. One thread.
    """

    def __init__(self, options: OptionValues, language: SchemaLanguage[Schema]) -> None:
        self._client, self._framing = _of_type(options)
        self._language = language
        self._schemas: dict[SchemaKey, Schema] = {}
        self._unknown: dict[SchemaKey, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_unknown": {}}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._client.address})"

    @property
    def framing(self) -> Framing:
        """How records name a schema."""
        return self._framing

    def schema(self, key: SchemaKey) -> Schema:
        """Returns the schema with that key. Raises Misfit for one that is unknown or of another language."""
        if key in self._schemas:
            return self._schemas[key]
        now = time.monotonic()
        if now - self._unknown.get(key, -_UNKNOWN_SECONDS) >= _UNKNOWN_SECONDS:
            found = self._client.get(key, self._language)
            if found is not None and found.language == self._language.name:
                self._schemas[key] = self._loaded(f"schema {key}", found)
                return self._schemas[key]
            if len(self._unknown) >= _UNKNOWN_IDS:
                self._unknown.clear()
            self._unknown[key] = now
        raise Misfit(f"the schema registry has no {self._language.label} schema {key}")

    def latest(self, subject: str) -> tuple[SchemaKey, Schema]:
        """Key and schema of a subject's latest version. Raises BadConfigurationError if there is none."""
        found = self._client.latest(subject, self._language)
        if found is None:
            raise BadConfigurationError(
                f"{self._client.address} has no subject '{subject}': register a schema, or set 'subject' or 'schema'"
            )
        key, stored = found
        if stored.language != self._language.name:
            raise BadConfigurationError(f"subject '{subject}' holds {stored.language}, not {self._language.label}")
        self._schemas[key] = self._loaded(f"subject '{subject}'", stored)
        return key, self._schemas[key]

    def identify(self, subject: str, text: str, references: Sequence[Reference] = (), *, register: bool) -> SchemaKey:
        """Returns the key of the schema ``text`` in ``subject``, registered first if ``register``.

        Raises BadConfigurationError if it is not there, or not compatible with the versions before it.
        """
        found = self._client.identify(subject, self._language, text, references, register=register)
        if found is None:
            raise self._missing(subject)
        return found

    def refer(self, name: str, text: str, references: Sequence[Reference], *, register: bool) -> Reference:
        """Returns a reference to the schema ``text``, which others import as ``name``. That is its subject, too.

        Raises as :meth:`identify` does.
        """
        self.identify(name, text, references, register=register)
        version = self._client.version(name, self._language, text, references)
        if version is None:
            raise self._missing(name)
        return Reference(name, name, version)

    def _missing(self, subject: str) -> BadConfigurationError:
        return BadConfigurationError(
            f"{self._client.address} does not have this schema in subject '{subject}': "
            "register it, or set 'auto.register.schemas' or 'use.latest.version'"
        )

    def _loaded(self, what: str, stored: StoredSchema) -> Schema:
        try:
            return self._language.load(stored.text, stored.references)
        except BadConfigurationError as error:
            raise BadConfigurationError(f"{what} in the schema registry: {error}") from None
        except Exception as error:  # whatever the packages that read schemas raise
            reason = shortened(f"{type(error).__name__}: {error}")
            article = "an" if self._language.label[0] in "AEIOU" else "a"
            raise BadConfigurationError(
                f"{what} in the schema registry is not {article} {self._language.label} schema: {reason}"
            ) from None


def subject_of(options: OptionValues, record: str | None) -> str:
    """Returns the subject that the options name, or their strategy, for a schema of that full name.

    Raises BadConfigurationError.
    """
    if options["subject"] is not None:
        return str(options["subject"])
    strategy, topic = options["subject.name.strategy"], options["topic"]
    if topic is None and strategy != "record":
        raise BadConfigurationError("the subject in the schema registry follows no single topic: set 'subject'")
    if strategy == "topic":
        # As the serializers of each kind do.
        return str(topic) if options["schema.registry.type"] == "glue" else f"{topic}-{options['part']}"
    if record is None:
        raise BadConfigurationError(
            f"'subject.name.strategy' is {strategy}, and without a record's schema there is no name: set 'subject'"
        )
    return record if strategy == "record" else f"{topic}-{record}"
