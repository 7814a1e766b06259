"""What Spark shows of a plan holds no secret option."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

import penstock
from penstock._plugins import installed_connectors
from penstock.serialization.formats import find_format
from penstock.spark._redaction import hide_secrets, request_pattern, secret_pattern
from penstock_kafka.config._java import JAVA_NAMES
from penstock_kafka.config._librdkafka import PROPERTIES

#: What Spark hides by itself (``spark.redaction.regex``).
SPARKS_OWN = r"(?i)secret|password|token|access[.]?key"
CANARY = "canary-5ecr3t"
PEM = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----"


def connectors():
    return [found.load() for found in installed_connectors() if not found.problem]


def secret_names():
    """Every name of a secret option, and those that stand for many, as far as they are known."""
    formats = {one.name for name in ("avro", "json") for one in find_format(name).options}
    settings = {*PROPERTIES, *JAVA_NAMES}
    for connector in connectors():
        for options in filter(None, (connector.source_options, connector.sink_options)):
            for option in options:
                if option.secret:
                    yield from option.names
                elif option.secret_names is not None:
                    known = settings if option.name == "kafka.*" else formats
                    yield from filter(options.is_secret, (f"{option.name[:-1]}{rest}" for rest in known))


def test_every_secret_option_is_hidden():
    names, pattern = set(secret_names()), secret_pattern(connectors())
    assert {"s3.key", "kafka.ssl.key.pem", "kafka.ssl.keystore.key", "password"} < names
    assert any(name.endswith("basic.auth.user.info") for name in names)
    for name in names:
        assert re.search(SPARKS_OWN, name) or re.search(pattern, name), name


def test_every_secret_option_is_one_for_dead_letters_too():
    pattern, declared = secret_pattern(connectors()), connectors()[0].sink_options
    for name in set(secret_names()):
        of_letters = f"deadLetters.{name}"
        assert declared.is_secret(of_letters), name
        assert re.search(SPARKS_OWN, of_letters) or re.search(pattern, of_letters), name


def test_others_are_shown():
    pattern = secret_pattern(connectors())
    for shown in (
        "path",
        "topic",
        "kafka.bootstrap.servers",
        "s3.endpoint",
        "user",
        "tls.keyFile",
        "/data/s3.key/x",
        "deadLetters.path",
    ):
        assert not re.search(pattern, shown), shown


def test_what_the_user_hides_stays_hidden():
    kept = {"spark.sql.redaction.options.regex": "mine"}
    conf = SimpleNamespace(get=lambda name, default: kept.get(name, default), set=kept.__setitem__)
    over_connect = SimpleNamespace(get=conf.get, _set_all=lambda settings, silent: kept.update(settings))
    for _ in range(2):
        hide_secrets(SimpleNamespace(conf=conf), connectors(), over_connect=False)
    (made,) = kept.values()
    assert made == f"(?:mine)|{secret_pattern(connectors())}"
    hide_secrets(SimpleNamespace(conf=over_connect), connectors(), over_connect=True)
    assert kept["spark.sql.redaction.string.regex"] == request_pattern(connectors())


def test_requests_of_connect_show_no_secret():
    """A server shows them as the text of a protocol buffer."""
    pattern = request_pattern(connectors())
    others = 'options { key: "path" value: "/token/x" } options { key: "topic" value: "password" }'
    for name in set(secret_names()):
        value = f'"{CANARY} \\"quoted\\" \\n"'
        request = f'options {{\n  key: "{name}"\n  value: {value}\n}}\n{others}'
        assert re.sub(pattern, "***", request) == f"options {{\n  ***\n}}\n{others}", name
    assert re.sub(pattern, "***", others) == others


@pytest.mark.spark
def test_plans_show_no_secret(spark, tmp_path, capsys):
    penstock.register(spark)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("x\n")
    given = {"format": "text", "s3.key": CANARY, "s3.secret": CANARY}
    reading = {"path": str(tmp_path / "in"), **given}
    stream = spark.readStream.format("penstock.filesystem").schema("value string").options(**reading).load()
    batch = spark.read.format("penstock.filesystem").schema("value string").options(**reading).load()
    topic = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.ssl.key.pem": PEM}
    records = spark.readStream.format("penstock.kafka").options(**topic).load()
    for frame in (stream, batch, records):
        frame.explain(True)
        frame.explain("formatted")
    shown = capsys.readouterr().out
    assert [shown[found.start() - 300 : found.end()] for found in re.finditer(CANARY, shown)] == []
    assert "redacted" in shown and "format=text" in shown
