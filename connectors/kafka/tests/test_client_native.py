"""The compiled part: it is there where a C compiler is, without it librdkafka takes over, and the switch obeys."""

from __future__ import annotations

import shutil

import pytest

from penstock.errors import BadConfigurationError
from penstock.native import NativeLibrary
from penstock_kafka.client import native_problem, open_consumer, open_producer
from penstock_kafka.client.codec import _library
from penstock_kafka.options import SINK_OPTIONS, SOURCE_OPTIONS

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@needs_compiler
def test_the_native_client_is_there():
    assert native_problem() == ""


def test_without_the_compiled_part_librdkafka_takes_over(monkeypatch, tmp_path):
    monkeypatch.setattr(_library, "LIBRARY", NativeLibrary(tmp_path, {}))
    assert "without its compiled part" in native_problem()
    with pytest.raises(BadConfigurationError, match="compiled part"):
        open_consumer(NOWHERE, "protocol")
    for opened in (open_consumer(NOWHERE), open_producer(NOWHERE)):
        assert type(opened).__name__.startswith("Librdkafka")
        opened.close()


@needs_compiler
def test_the_switch_decides_where_nothing_else_does(monkeypatch):
    def kind(implementation="auto"):
        opened = open_consumer(NOWHERE, implementation)
        opened.close()
        return type(opened).__name__

    assert kind() == "ProtocolConsumer"
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", "librdkafka")
    assert (kind(), kind("protocol")) == ("LibrdkafkaConsumer", "ProtocolConsumer")
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", "auto")
    assert kind() == "ProtocolConsumer"
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", "nativ")
    with pytest.raises(BadConfigurationError, match="PENSTOCK_KAFKA_CLIENT"):
        kind()


@pytest.mark.parametrize(
    ("declared", "given"), [(SOURCE_OPTIONS, {"subscribe": "t"}), (SINK_OPTIONS, {})], ids=["source", "sink"]
)
def test_former_names_of_the_clients_still_mean_the_same_and_warn_once(monkeypatch, caplog, declared, given):
    monkeypatch.setattr("penstock.options._set._warned", set())
    for former, name in {"native": "protocol", "Python": "librdkafka", "python": "librdkafka"}.items():
        assert declared.parse({**given, "client": former}, owner="penstock.kafka")["client"] == name
    texts = [record.getMessage() for record in caplog.records]
    now = {"native": "protocol", "python": "librdkafka"}
    assert texts == [f"penstock.kafka: client={former} is called client={name} now" for former, name in now.items()]
    with pytest.raises(BadConfigurationError, match=r"'jvm' is not one of auto, protocol, librdkafka"):
        declared.parse({**given, "client": "jvm"}, owner="penstock.kafka")


@needs_compiler
def test_the_switch_takes_former_names(monkeypatch):
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", "python")
    opened = open_consumer(NOWHERE)
    assert type(opened).__name__ == "LibrdkafkaConsumer"
    opened.close()
