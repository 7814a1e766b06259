"""What registries hold: schemas of some language, as texts that refer to others, and how each language is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Reference", "SchemaClient", "SchemaKey", "SchemaLanguage", "StoredSchema"]

Schema = TypeVar("Schema")

#: What a record names its schema by: a number, or the text of a UUID.
SchemaKey = Any


@dataclass(frozen=True)
class Reference:
    """A schema that another one imports as ``name``: a version of ``subject``."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class StoredSchema:
    """A schema as a registry holds it.

    ``references`` are names and texts of what it refers to, each after those that it refers to itself.
    """

    language: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class SchemaLanguage(ABC, Generic[Schema]):
    """Avro, JSON Schema or Protobuf."""

    #: As registries name it.
    name: str
    #: As messages name it.
    label: str
    #: The form to ask a registry for, if it has several and :meth:`reads` is false.
    form: str | None = None

    def reads(self, text: str) -> bool:
        """Returns whether the text is in the form that needs nothing else to be read."""
        return True

    @abstractmethod
    def load(self, text: str, references: Sequence[tuple[str, str]]) -> Schema:
        """Returns the schema; ``references`` as :class:`StoredSchema` has them. Raises anything for what is none."""


class SchemaClient(ABC):
    """Asks a registry. Pickled without its connection. One thread.

    Every method raises RetriableError if the registry does not answer, BadConfigurationError if it refuses, and returns
    ``None`` for what it does not have.
    """

    @property
    @abstractmethod
    def address(self) -> str:
        """The registry as messages name it: without secrets."""

    @abstractmethod
    def get(self, key: SchemaKey, language: SchemaLanguage[Any]) -> StoredSchema | None:
        """Returns the schema with that key."""

    @abstractmethod
    def latest(self, subject: str, language: SchemaLanguage[Any]) -> tuple[SchemaKey, StoredSchema] | None:
        """Returns key and schema of a subject's latest version."""

    @abstractmethod
    def identify(
        self, subject: str, language: SchemaLanguage[Any], text: str, references: Sequence[Reference], *, register: bool
    ) -> SchemaKey | None:
        """Returns the key of the schema ``text`` in ``subject``, registered first if ``register``."""

    def version(
        self, subject: str, language: SchemaLanguage[Any], text: str, references: Sequence[Reference]
    ) -> int | None:
        """Returns which version of ``subject`` the schema is, for schemas that refer to it: where there are any."""
        return None
