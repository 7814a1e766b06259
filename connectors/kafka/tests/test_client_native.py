"""The compiled part: it is there where a C compiler is, it is what its sources say, and the switch obeys."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import BadConfigurationError
from penstock_kafka.client import native_problem, open_consumer, open_producer
from penstock_kafka.client.native import _compile, _library

PACKAGE = Path(_compile.__file__).parents[4]
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The sources and the library, elsewhere, and what the loader says of them."""
    here = tmp_path / "native"
    shutil.copytree(_compile.HERE, here)
    monkeypatch.setattr(_compile, "HERE", here)
    monkeypatch.setattr(_compile, "LIBRARY", here / _compile.LIBRARY.name)
    monkeypatch.setattr(_library, "LIBRARY", here / _compile.LIBRARY.name)
    _library._load.cache_clear()
    yield here
    monkeypatch.undo()
    _library._load.cache_clear()


@needs_compiler
def test_the_native_client_is_there():
    assert native_problem() == ""


def test_a_missing_library_is_said_and_python_takes_over(copied):
    (copied / _compile.LIBRARY.name).unlink()
    assert "without its compiled part" in native_problem()
    with pytest.raises(BadConfigurationError, match="compiled part"):
        open_consumer(NOWHERE, "native")
    for opened in (open_consumer(NOWHERE), open_producer(NOWHERE)):
        assert type(opened).__name__.startswith("Python")
        opened.close()


@needs_compiler
def test_a_library_of_other_sources_is_not_used_until_it_is_compiled_anew(copied, monkeypatch):
    assert native_problem() == ""
    with (copied / "decoder.c").open("a") as source:
        source.write("/* changed */\n")
    _library._load.cache_clear()
    assert "not made of the C sources" in native_problem()
    assert _compile.compile_library() == ""
    # Under another name: a process does not load a file of the same name again.
    monkeypatch.setattr(_library, "LIBRARY", (copied / _compile.LIBRARY.name).rename(copied / "anew.so"))
    _library._load.cache_clear()
    assert native_problem() == ""


def test_a_broken_library_is_said(copied):
    (copied / _compile.LIBRARY.name).write_bytes(b"not a library")
    assert "can't be loaded" in native_problem()


def test_no_compiler_and_a_failing_one_are_said(copied, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "did not run" in _compile.compile_library()
    monkeypatch.setenv("CC", f"{sys.executable} -c 'import sys; sys.exit(\"broken\")'")
    assert "broken" in _compile.compile_library()


def test_the_build_script_never_fails_an_installation(tmp_path, monkeypatch, capsys):
    native = tmp_path / "src" / "penstock_kafka" / "client" / "native"
    shutil.copytree(_compile.HERE, native)
    shutil.copy(PACKAGE / "build.py", tmp_path)
    monkeypatch.setenv("CC", "no-such-compiler")
    runpy.run_path(str(tmp_path / "build.py"))
    assert "without its native client" in capsys.readouterr().out
    assert not list(native.glob("*.so"))


@needs_compiler
def test_the_sources_compile_without_warnings(tmp_path):
    command = [*_compile._command(tmp_path / "out.so"), "-Werror", "-Wshadow"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
