"""A Confluent-compatible schema registry, asked by Confluent's own client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import BadConfigurationError, PenstockError, RetriableError
from penstock.options import OptionValues
from penstock.serialization.avro import AvroSchema, standalone
from penstock.serialization.formats._rows import Misfit

__all__ = ["SchemaRegistry"]

#: Names that the client shares with our options.
_SHARED = (
    "basic.auth.user.info",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "max.retries",
)
#: How long an id counts as unknown. Garbage that looks like ids must not become a request each.
_UNKNOWN_SECONDS = 30.0
_UNKNOWN_IDS = 10_000


class SchemaRegistry:
    """Looks schemas up and registers them. Holds settings and the schemas it has met; pickled without its connection.

    Memory is bounded by the number of schemas in use. One thread.
    """

    def __init__(self, options: OptionValues) -> None:
        self._config = {name: options[name] for name in _SHARED if options[name] is not None}
        self._address = _checked(options["schema.registry.url"])
        self._config |= {"url": self._address, "timeout": options["request.timeout"] / 1000}
        self._client: Any = None
        self._schemas: dict[int, AvroSchema] = {}
        self._unknown: dict[int, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_unknown": {}}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._address})"

    def schema(self, schema_id: int) -> AvroSchema:
        """Returns the schema with that id. Raises Misfit for one that is unknown or not Avro."""
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        now = time.monotonic()
        if now - self._unknown.get(schema_id, -_UNKNOWN_SECONDS) < _UNKNOWN_SECONDS:
            raise Misfit(f"the schema registry has no Avro schema {schema_id}")
        found = self._ask(f"schema {schema_id}", "get_schema", schema_id)
        if found is None or not _is_avro(found):
            if len(self._unknown) >= _UNKNOWN_IDS:
                self._unknown.clear()
            self._unknown[schema_id] = now
            raise Misfit(f"the schema registry has no Avro schema {schema_id}")
        self._schemas[schema_id] = self._standalone(f"schema {schema_id}", found)
        return self._schemas[schema_id]

    def latest(self, subject: str) -> tuple[int, AvroSchema]:
        """Id and schema of a subject's latest version. Raises BadConfigurationError if there is none."""
        found = self._ask(f"subject '{subject}'", "get_latest_version", subject)
        if found is None:
            raise BadConfigurationError(
                f"the schema registry at {self._address} has no subject '{subject}': register a schema, or set "
                "'subject' or 'schema'"
            )
        if not _is_avro(found.schema):
            raise BadConfigurationError(f"subject '{subject}' holds {found.schema.schema_type}, not Avro")
        schema = self._schemas[found.schema_id] = self._standalone(f"subject '{subject}'", found.schema)
        return found.schema_id, schema

    def identify(self, subject: str, text: str, *, register: bool) -> int:
        """Returns the id of the schema ``text`` in ``subject``, registered first if ``register``.

        Raises BadConfigurationError if it is not there, or not compatible with the versions before it.
        """
        from confluent_kafka.schema_registry import Schema

        schema = Schema(text, "AVRO")
        if register:
            schema_id = self._ask(f"subject '{subject}'", "register_schema", subject, schema)
        else:
            found = self._ask(f"subject '{subject}'", "lookup_schema", subject, schema)
            schema_id = None if found is None else found.schema_id
        if schema_id is None:
            raise BadConfigurationError(
                f"the schema registry at {self._address} does not have this schema in subject '{subject}': register "
                "it, or set 'auto.register.schemas' or 'use.latest.version'"
            )
        return int(schema_id)

    def _standalone(self, what: str, schema: Any) -> AvroSchema:
        named: dict[str, Any] = {}
        try:
            self._load_references(what, schema, named)
            return standalone(json.loads(schema.schema_str), named)
        except PenstockError:
            raise
        except Exception as error:  # fastavro raises what it runs into
            raise BadConfigurationError(
                f"{what} in the schema registry is not an Avro schema: {type(error).__name__}: {error}"
            ) from None

    def _load_references(self, what: str, schema: Any, named: dict[str, Any]) -> None:
        """Puts what the schemas that ``schema`` refers to define into ``named``."""
        for reference in schema.references or ():
            if reference.name in named:
                continue
            found = self._ask(what, "get_version", reference.subject, reference.version)
            if found is None:
                raise BadConfigurationError(
                    f"{what} refers to version {reference.version} of '{reference.subject}', which is not there"
                )
            self._load_references(what, found.schema, named)
            standalone(json.loads(found.schema.schema_str), named)

    def _ask(self, what: str, method: str, *arguments: Any) -> Any:
        """Returns the client's answer, ``None`` for "not found"."""
        with self._translated(what):
            if self._client is None:
                self._client = _connect(self._config)
            return getattr(self._client, method)(*arguments)
        return None

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Translates errors of the client; "not found" ends the block."""
        where = f"the schema registry at {self._address}"
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:  # whatever the HTTP library of the installed release raises
            status = getattr(error, "http_status_code", None)
            if status == 404 and getattr(error, "error_code", None) not in (None, -1):
                return
            if status == 404:
                raise BadConfigurationError(
                    f"{where} does not answer as one about {what}: is a path missing?"
                ) from None
            if status in (401, 403):
                raise BadConfigurationError(
                    f"{where} refuses {what} ({status}): check 'basic.auth.user.info' and what the user may do"
                ) from None
            if status in (409, 422):
                raise BadConfigurationError(f"{where} does not accept the schema for {what}: {error}") from None
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise BadConfigurationError(f"{where} is not trusted: {error}; set 'ssl.ca.location'") from None
            if isinstance(error, ValueError | TypeError | KeyError | AttributeError):
                raise BadConfigurationError(f"{where} does not answer as one about {what}: {error!r}") from None
            raise RetriableError(f"{where} can't be asked for {what}: {type(error).__name__}: {error}") from error


def _checked(addresses: str) -> str:
    """Returns the addresses, if each is one and none holds a user: they are shown in messages."""
    for address in addresses.split(","):
        parts = urlsplit(address.strip())
        if "@" in parts.netloc:  # the options refuse those that look like an address: not //user:password@host
            raise BadConfigurationError(
                "option 'schema.registry.url' holds a user: write it as 'basic.auth.user.info' (user:password)"
            )
        if parts.scheme not in ("http", "https", "mock") or not parts.netloc:
            raise BadConfigurationError(f"option 'schema.registry.url': {address!r} is not an http or https address")
    return addresses


def _is_avro(schema: Any) -> bool:
    return schema.schema_type in (None, "AVRO")


def _connect(config: dict[str, Any]) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise BadConfigurationError(
            f"a schema registry needs more packages ({error}): pip install 'penstock[schema-registry]'"
        ) from None
    try:
        return SchemaRegistryClient.new_client(config)
    except (ValueError, TypeError, OSError) as error:
        # Its texts name settings and files, not their values.
        raise BadConfigurationError(f"the settings of the schema registry are wrong: {error}") from None
