"""The compiled part: it is there where a C compiler is, without it Python takes over, and the switch obeys."""

from __future__ import annotations

import shutil

import pytest

from penstock.errors import BadConfigurationError
from penstock.native import NativeLibrary
from penstock_kafka.client import native_problem, open_consumer, open_producer
from penstock_kafka.client.native import _library

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@needs_compiler
def test_the_native_client_is_there():
    assert native_problem() == ""


def test_without_the_compiled_part_python_takes_over(monkeypatch, tmp_path):
    monkeypatch.setattr(_library, "LIBRARY", NativeLibrary(tmp_path, {}))
    assert "without its compiled part" in native_problem()
    with pytest.raises(BadConfigurationError, match="compiled part"):
        open_consumer(NOWHERE, "native")
    for opened in (open_consumer(NOWHERE), open_producer(NOWHERE)):
        assert type(opened).__name__.startswith("Python")
        opened.close()


@needs_compiler
def test_the_switch_decides_where_nothing_else_does(monkeypatch):
    def kind(implementation="auto"):
        opened = open_consumer(NOWHERE, implementation)
        opened.close()
        return type(opened).__name__

    assert kind() == "DirectConsumer"
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", "python")
    assert (kind(), kind("native")) == ("PythonConsumer", "DirectConsumer")
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", "auto")
    assert kind() == "DirectConsumer"
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", "nativ")
    with pytest.raises(BadConfigurationError, match="PENSTOCK_KAFKA_CLIENT"):
        kind()
