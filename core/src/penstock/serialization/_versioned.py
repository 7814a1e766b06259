"""A version number plus the bytes that this version wrote, as Flink's SimpleVersionedSerializer."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.errors import FatalError
from penstock.serialization._malformed import malformed_is_bad_data

T = TypeVar("T")
_SHOWN_BYTES = 60
#: Above it are the versions of what dead letters leave in a decision log, where rows have the versions of their sink.
DEAD_LETTER_VERSIONS = 1 << 20


def no_letter_sink() -> FatalError:
    """Returns the error of a sink whose dead letters have no sink of their own any more."""
    return FatalError(
        "dead letters were decided and are not published yet: set the options 'deadLetters.*' as they were, and change "
        "them once the query has written a batch"
    )


@dataclass(frozen=True)
class Versioned:
    """Bytes with the version of the serializer that wrote them. Its JSON form is ``{"v": 1, "data": "<base64>"}``."""

    version: int
    data: bytes

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object for logs and offsets."""
        return {"v": self.version, "data": base64.b64encode(self.data).decode("ascii")}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Versioned:
        """Returns the inverse of :meth:`to_json`."""
        return cls(int(value["v"]), base64.b64decode(value["data"]))


class SimpleVersionedSerializer(ABC, Generic[T]):
    """Turns a value into bytes, field by field, and back from every version that was ever released.

    No pickle: a stored form must open in another release, another Python and after classes have moved. Instances are
    stateless and may be used from several threads.
    """

    @property
    @abstractmethod
    def version(self) -> int:
        """The version that :meth:`serialize` writes now."""

    @abstractmethod
    def serialize(self, value: T) -> bytes:
        """``value`` as bytes of the current version."""

    @abstractmethod
    def deserialize(self, version: int, data: bytes) -> T:
        """Returns a value from bytes of ``version``.

        Raises :class:`FatalError` for a version that is newer than this code, :class:`BadDataError` for bytes that no
        version has written.
        """

    def pack(self, value: T) -> Versioned:
        """``value`` with the current version."""
        return Versioned(self.version, self.serialize(value))

    def unpack(self, stored: Versioned) -> T:
        """Returns the value of ``stored``."""
        return self.deserialize(stored.version, stored.data)


class JsonSerializer(SimpleVersionedSerializer[T]):
    """A serializer whose bytes are a compact JSON object, from two functions.

    ``to_fields`` gives the JSON-ready fields of a value; ``from_fields`` takes the version and the fields, so that it
    can open older versions. Bytes are UTF-8, keys sorted: equal values give equal bytes.
    """

    def __init__(self, version: int, to_fields: Callable[[T], Any], from_fields: Callable[[int, Any], T]) -> None:
        self._version = version
        self._to_fields = to_fields
        self._from_fields = from_fields

    @property
    def version(self) -> int:
        """The version written now."""
        return self._version

    def serialize(self, value: T) -> bytes:
        """Compact, sorted JSON."""
        return json.dumps(self._to_fields(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()

    def deserialize(self, version: int, data: bytes) -> T:
        if version > DEAD_LETTER_VERSIONS:
            raise no_letter_sink()
        if not 1 <= version <= self._version:
            raise FatalError(
                f"a stored form has version {version}, this installation reads up to {self._version}: "
                "install the release that wrote it, or a newer one"
            )
        with malformed_is_bad_data(f"a stored form of version {version}, {data[:_SHOWN_BYTES]!r}"):
            return self._from_fields(version, json.loads(data))
