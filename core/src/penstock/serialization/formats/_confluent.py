"""Registries with Confluent's interface, asked by Confluent's own client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import BadConfigurationError, PenstockError, RetriableError
from penstock.options import OptionValues
from penstock.serialization.formats._schemas import Reference, SchemaClient, SchemaKey, SchemaLanguage, StoredSchema

__all__ = ["ConfluentClient", "checked_address"]

#: Names that the client shares with our options.
_SHARED = (
    "basic.auth.user.info",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "max.retries",
)


class ConfluentClient(SchemaClient):
    """See :class:`SchemaClient`. Keys are the registry's ids."""

    def __init__(self, options: OptionValues) -> None:
        self._config = {name: options[name] for name in _SHARED if options[name] is not None}
        self._address = checked_address(options["schema.registry.url"])
        self._config |= {"url": self._address, "timeout": options["request.timeout"] / 1000}
        self._client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def __repr__(self) -> str:
        return f"ConfluentClient({self._address})"

    @property
    def address(self) -> str:
        return f"the schema registry at {self._address}"

    def get(self, key: SchemaKey, language: SchemaLanguage[Any]) -> StoredSchema | None:
        what = f"schema {key}"
        found = self._ask(what, "get_schema", key)
        if found is not None:
            found = self._readable(found, language, lambda form: self._ask(what, "get_schema", key, fmt=form))
        return None if found is None else self._stored(what, found, language)

    def latest(self, subject: str, language: SchemaLanguage[Any]) -> tuple[SchemaKey, StoredSchema] | None:
        what = f"subject '{subject}'"
        found = self._ask(what, "get_latest_version", subject)
        return (
            None
            if found is None
            else (
                found.schema_id,
                self._stored(what, self._of_version(what, subject, found, language), language),
            )
        )

    def identify(
        self, subject: str, language: SchemaLanguage[Any], text: str, references: Sequence[Reference], *, register: bool
    ) -> SchemaKey | None:
        what, schema = f"subject '{subject}'", _schema(language, text, references)
        if register:
            return self._ask(what, "register_schema", subject, schema)
        found = self._ask(what, "lookup_schema", subject, schema)
        return None if found is None else found.schema_id

    def version(
        self, subject: str, language: SchemaLanguage[Any], text: str, references: Sequence[Reference]
    ) -> int | None:
        found = self._ask(f"subject '{subject}'", "lookup_schema", subject, _schema(language, text, references))
        return None if found is None else int(found.version)

    def _stored(self, what: str, schema: Any, language: SchemaLanguage[Any]) -> StoredSchema:
        references: dict[str, str] = {}
        name = schema.schema_type or "AVRO"
        if name == language.name:
            self._follow(what, schema, language, references, ())
        return StoredSchema(name, schema.schema_str, tuple(references.items()))

    def _follow(
        self, what: str, schema: Any, language: SchemaLanguage[Any], found: dict[str, str], within: tuple[str, ...]
    ) -> None:
        """Puts the texts of what ``schema`` refers to into ``found``, each after what it refers to itself."""
        for reference in schema.references or ():
            if reference.name in found or reference.name in within:
                continue
            answer = self._ask(what, "get_version", reference.subject, reference.version)
            if answer is None:
                raise BadConfigurationError(
                    f"{what} refers to version {reference.version} of '{reference.subject}', which is not there"
                )
            other = self._of_version(what, reference.subject, answer, language)
            self._follow(what, other, language, found, (*within, reference.name))
            found[reference.name] = other.schema_str

    def _of_version(self, what: str, subject: str, found: Any, language: SchemaLanguage[Any]) -> Any:
        def again(form: str) -> Any:
            answer = self._ask(what, "get_version", subject, found.version, fmt=form)
            return None if answer is None else answer.schema

        return self._readable(found.schema, language, again)

    def _readable(self, schema: Any, language: SchemaLanguage[Any], again: Callable[[str], Any]) -> Any:
        """Returns the schema in the form that its language reads best, if the registry has it.

        Those of others answer with something else, or fail.
        """
        is_other = (schema.schema_type or "AVRO") != language.name
        if language.form is None or is_other or language.reads(schema.schema_str):
            return schema
        kept, self._client = self._client, None  # a client answers from its memory, in the form it asked for first
        try:
            other = again(language.form)
        except (BadConfigurationError, RetriableError):
            return schema
        finally:
            self._client = kept
        return schema if other is None or not language.reads(other.schema_str) else other

    def _ask(self, what: str, method: str, *arguments: Any, **more: Any) -> Any:
        """Returns the client's answer, ``None`` for "not found"."""
        with self._translated(what):
            if self._client is None:
                self._client = _connect(self._config)
            return getattr(self._client, method)(*arguments, **more)
        return None

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Translates errors of the client; "not found" ends the block."""
        where = self.address
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


def checked_address(addresses: str) -> str:
    """Returns the addresses, if none holds a user: they are shown in messages."""
    for address in addresses.split(","):
        parts = urlsplit(address.strip())
        if "@" in parts.netloc:  # the options refuse those that look like an address: not //user:password@host
            raise BadConfigurationError(
                "option 'schema.registry.url' holds a user: write it as 'basic.auth.user.info' (user:password)"
            )
    return addresses


def _schema(language: SchemaLanguage[Any], text: str, references: Sequence[Reference]) -> Any:
    package = _package()
    named = [package.SchemaReference(one.name, one.subject, one.version) for one in references]
    return package.Schema(text, language.name, named)


def _package() -> Any:
    try:
        import confluent_kafka.schema_registry as package
    except ImportError as error:
        raise BadConfigurationError(
            f"a schema registry needs more packages ({error}): pip install 'penstock[schema-registry]'"
        ) from None
    return package


def _connect(config: dict[str, Any]) -> Any:
    try:
        return _package().SchemaRegistryClient.new_client(config)
    except (ValueError, TypeError, OSError) as error:
        # Its texts name settings and files, not their values.
        raise BadConfigurationError(f"the settings of the schema registry are wrong: {error}") from None
