"""No secret in a repr, an error, a warning or a stored text, whatever it looks like and wherever it is written."""

from __future__ import annotations

import warnings

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet
from penstock_kafka.client import open_consumer, open_producer
from penstock_kafka.client.broker import kafka_python_arguments
from penstock_kafka.config import ClientSettings, is_secret_setting
from penstock_kafka.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

SECRET = """
    sasl.jaas.config sasl.password ssl.key.password ssl.keystore.password ssl.truststore.password ssl.key.pem
    ssl.keystore.key ssl_key sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.config sasl.kerberos.kinit.cmd sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.pasword my.own.setting SASL.Password kafka.sasl.password
"""
PUBLIC = """
    bootstrap.servers sasl.username sasl.mechanism ssl.ca.location ssl.key.location ssl.ca.pem acks
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.client.id sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.assertion.private.key.file ssl.truststore.location metric.reporters kafka.Client.Id
"""


def check(client: ClientSettings) -> None:
    """Has librdkafka look at every value."""
    opening = open_consumer if client.role == "consumer" else open_producer
    opening(client.librdkafka(), "librdkafka").close()


def test_which_settings_are_secret():
    assert [name for name in SECRET.split() if not is_secret_setting(name)] == []
    assert [name for name in PUBLIC.split() if is_secret_setting(name)] == []


# Long enough, and of letters that our own texts do not have, not to be found in them by chance.
secrets = st.text(alphabet="XYZ#\"'\\;= %{}\n§", min_size=6, max_size=30).filter(
    lambda text: text.strip() == text and sum(letter in "XYZ#§" for letter in text) > 4
)
names = st.sampled_from([name.lower().removeprefix("kafka.") for name in SECRET.split()])


def everything_shown(declared: OptionSet, build: type, options: dict[str, str]) -> str:
    """Whatever a user could see of the options: texts, reprs, warnings, errors."""
    shown = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            values = declared.parse(options, owner="source penstock.kafka")
            shown += [repr(values), str(values.texts(secrets=False))]
            built = build.from_values(values)
            shown.append(repr(built))
            for client in (built.admin, getattr(built, "consumer", None) or built.producer):
                check(client)
                kafka_python_arguments(client.librdkafka())
        except BadConfigurationError as error:
            # The error that it came of is printed with it.
            shown += [str(error), str(error.__cause__)]
    return "\n".join([*shown, *(str(warning.message) for warning in caught)])


@settings(max_examples=150)
@given(secret=secrets, name=names, sink=st.booleans(), protocol=st.sampled_from(["PLAINTEXT", "SASL_SSL"]))
def test_secrets_never_show(secret, name, sink, protocol):
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.security.protocol": protocol,
        f"kafka.{name}": secret,
        "value.format.basic.auth.user.info": secret,
        **({"topic": "t"} if sink else {"subscribe": "t"}),
    }
    if name != "sasl.jaas.config":
        options["kafka.sasl.mechanism"] = "PLAIN"
    shown = everything_shown(SINK_OPTIONS if sink else SOURCE_OPTIONS, SinkOptions if sink else SourceOptions, options)
    assert secret not in shown
    assert repr(secret)[1:-1] not in shown


@pytest.mark.parametrize(
    "jaas",
    [
        'a.PlainLoginModule required username="u" password="XYZXYZ#";',
        'a.PlainLoginModule required username="u" password="XYZ"XYZ#";',
        'a.PlainLoginModule XYZXYZ# username="u";',
        'XYZXYZ#Module required username="u";',
        'a.PlainLoginModule required username="u" password=XYZXYZ#',
        'a.ScramLoginModule required username="u" password="XYZXYZ#";',
    ],
)
def test_jaas_never_shows(jaas):
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.sasl.jaas.config": jaas}
    assert "XYZ" not in everything_shown(SOURCE_OPTIONS, SourceOptions, options)


@pytest.mark.parametrize("role", ["consumer", "producer"])
def test_a_library_that_sends_a_secret_back(monkeypatch, role):
    def refuse(settings):
        text = f"can't use {settings['sasl.password']} of {settings['sasl.username']}"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))

    monkeypatch.setattr(f"penstock_kafka.client.librdkafka._{role}.{role.title()}", refuse)
    kafka = {"bootstrap.servers": "h:1", "sasl.username": "anna", "sasl.password": "hunter2"}
    with pytest.raises(BadConfigurationError, match=r"can't use \*\*\* of anna") as caught:
        check(ClientSettings.from_options(kafka, role))
    assert caught.value.__suppress_context__


def test_secrets_arrive():
    kafka = {"bootstrap.servers": "h:1", "sasl.password": " pa ss ", "sasl.mechanism": "PLAIN"}
    assert ClientSettings.from_options(kafka, "consumer").librdkafka()["sasl.password"] == " pa ss "
