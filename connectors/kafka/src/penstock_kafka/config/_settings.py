"""The settings of one Kafka client, checked and translated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock_kafka.config._secrets import is_secret_setting
from penstock_kafka.config._translate import Role, translate

__all__ = ["ClientSettings"]


@dataclass(frozen=True, repr=False)
class ClientSettings:
    """Settings of a consumer, a producer or an admin client, in librdkafka's spelling. Its repr hides secrets.

    Picklable: the pickled form holds the secrets, as tasks need them. Never store it.
    """

    role: Role
    settings: tuple[tuple[str, str], ...]

    @classmethod
    def from_options(cls, kafka: Mapping[str, str], role: Role) -> ClientSettings:
        """Settings of the options ``kafka.…``, given without that prefix, spelled as Java's client or as librdkafka.

        Names that both have mean what they mean in Java. What has no effect here is left out with one warning; what
        can't be translated, or would break a promise of the connector, is refused with what to write instead. A
        source reads committed records only, unless ``isolation.level`` says otherwise. Raises BadConfigurationError.
        """
        return cls(role, tuple(sorted(translate(kafka, role).items())))

    def librdkafka(self) -> dict[str, str]:
        """Arguments for librdkafka and confluent-kafka. Holds secrets. The client adds what it sets itself."""
        return dict(self.settings)

    def replaced(self, settings: Mapping[str, str]) -> ClientSettings:
        """Returns the same settings with ``settings`` replaced, in librdkafka's spelling."""
        return replace(self, settings=tuple(sorted({**dict(self.settings), **settings}.items())))

    def __repr__(self) -> str:
        shown = {name: "***" if is_secret_setting(name) else value for name, value in self.settings}
        return f"ClientSettings({self.role!r}, {shown})"
