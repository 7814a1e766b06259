"""The settings of one Kafka client, checked, in the forms that the two client libraries take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from penstock.errors import BadConfigurationError
from penstock_kafka.config._secrets import hide, is_secret_setting
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
        """The same but for ``settings``, in librdkafka's spelling."""
        return replace(self, settings=tuple(sorted({**dict(self.settings), **settings}.items())))

    def kafka_python(self) -> dict[str, Any]:
        """Arguments for ``kafka.KafkaAdminClient``. Holds secrets, and where TLS is on an ``ssl.SSLContext``.

        All of TLS is in the context: ``KafkaAdminClient`` takes certificates from files only, and the context also
        takes authorities as text, directories of them, and verification switched off. Its one need for a file is the
        client's certificate with its key; given as text (PEM) or in a PKCS#12 store, they are written to a file of
        mode 0600 in a new directory of mode 0700, read, and both removed before this returns.

        Must be called where the client is made: a context can't be pickled, and files are read here. Raises
        BadConfigurationError for files that can't be read and for what kafka-python can't do.
        """
        # Here and not above: importing kafka-python takes a while, and readers have no use for it.
        from penstock_kafka.config._kafka_python import kafka_python_arguments

        return kafka_python_arguments(dict(self.settings))

    def check(self) -> None:
        """Lets librdkafka check every value, by making a client that knows no broker and closing it.

        A few milliseconds; nothing is sent to Kafka. Raises BadConfigurationError without the values of secrets.
        """
        settings: dict[str, Any] = {n: v for n, v in self.settings if n != "bootstrap.servers"}
        try:
            if self.role == "consumer":
                Consumer({"group.id": "penstock-check", **settings}).close()
            else:
                Producer(settings)
        except (KafkaException, ValueError, TypeError) as error:
            # librdkafka sends bad values back in its text; the error it comes with is dropped for the same reason.
            cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            secrets = [value for name, value in self.settings if is_secret_setting(name)]
            raise BadConfigurationError(_advise(hide(cause, secrets))) from None

    def __repr__(self) -> str:
        shown = {name: "***" if is_secret_setting(name) else value for name, value in self.settings}
        return f"ClientSettings({self.role!r}, {shown})"


def _advise(cause: str) -> str:
    text = f"options 'kafka.…': librdkafka says: {cause}"
    if "GSSAPI" in cause:
        text += (
            ". The wheels of confluent-kafka have no Kerberos: install it from source with librdkafka and libsasl2 "
            "(pip install --no-binary confluent-kafka confluent-kafka), or use another sasl.mechanism"
        )
    return text
