"""Compiled parts: each is there where a compiler is, fits its sources, and its package can be built without one."""

from __future__ import annotations

import ctypes as ct
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.native import LIBRARY_NAME, NativeLibrary

CONNECTORS = Path(__file__).parents[2] / "connectors"
#: The directories with C that their packages' builds compile.
DIRECTORIES = sorted(CONNECTORS.glob("*/src/**/native"))
SCRIPT = CONNECTORS / "kafka" / "build.py"

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


def package_of(directory: Path) -> Path:
    return CONNECTORS / directory.relative_to(CONNECTORS).parts[0]


def by_package(directory: Path) -> str:
    return package_of(directory).name


def test_there_are_some():
    assert {by_package(directory) for directory in DIRECTORIES} == {"cassandra", "kafka"}


@pytest.fixture
def build():
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.fixture
def copied(tmp_path):
    """A package with C of its own."""
    native = tmp_path / "package" / "src" / "own" / "native"
    native.mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "package")
    (native / "add.h").write_text("int add(int, int);\n")
    (native / "add.c").write_text(
        '#include "add.h"\n#define EXPORT __attribute__((visibility("default")))\n'
        "EXPORT const char *penstock_source_hash(void) { return PENSTOCK_SOURCE_HASH; }\n"
        "EXPORT int add(int a, int b) { return a + b; }\n"
    )
    return native


ADD = {"add": (ct.c_int, (ct.c_int, ct.c_int))}


@needs_compiler
@pytest.mark.parametrize("directory", DIRECTORIES, ids=by_package)
def test_each_is_there_and_fits_its_sources(directory):
    assert NativeLibrary(directory, {}).problem == ""


@pytest.mark.parametrize("directory", DIRECTORIES, ids=by_package)
def test_all_are_built_alike(directory):
    assert (package_of(directory) / "build.py").read_text() == SCRIPT.read_text()


@needs_compiler
@pytest.mark.parametrize("directory", DIRECTORIES, ids=by_package)
def test_the_sources_compile_without_warnings(directory, tmp_path, build):
    command = [*build.command(directory, tmp_path / "out.so"), "-Werror", "-Wshadow"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_a_library_is_built_and_called(copied, capsys):
    runpy.run_path(str(copied.parents[2] / "build.py"), run_name="__main__")
    assert "compiled src/own/native" in capsys.readouterr().out
    library = NativeLibrary(copied, ADD)
    assert library.problem == "" and library.functions.add(2, 3) == 5


@needs_compiler
@pytest.mark.parametrize("changed", ["add.c", "add.h"])
def test_a_library_of_other_sources_is_not_used(copied, build, changed):
    assert build.compile_library(copied) == ""
    with (copied / changed).open("a") as source:
        source.write("/* changed */\n")
    library = NativeLibrary(copied, ADD)
    assert "not made of the C sources" in library.problem
    with pytest.raises(RuntimeError, match="not made of"):
        _ = library.functions


@needs_compiler
def test_without_its_sources_a_library_is_used(copied, build):
    """As a platform may install it."""
    assert build.compile_library(copied) == ""
    for source in copied.glob("*.[ch]"):
        source.unlink()
    assert NativeLibrary(copied, ADD).problem == ""


def test_what_is_wrong_is_said(copied, build, monkeypatch):
    assert "without its compiled part" in NativeLibrary(copied, ADD).problem
    (copied / LIBRARY_NAME).write_bytes(b"not a library")
    assert "can't be loaded" in NativeLibrary(copied, ADD).problem
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "did not run" in build.compile_library(copied)
    monkeypatch.setenv("CC", f"{sys.executable} -c 'import sys; sys.exit(\"broken\")'")
    assert "broken" in build.compile_library(copied)


def test_the_build_script_never_fails_an_installation(copied, monkeypatch, capsys):
    (copied / LIBRARY_NAME).write_bytes(b"of other sources")
    monkeypatch.setenv("CC", "no-such-compiler")
    runpy.run_path(str(copied.parents[2] / "build.py"), run_name="__main__")
    assert "package: built without its compiled part" in capsys.readouterr().out
    assert not (copied / LIBRARY_NAME).exists()


def run_build(copied):
    runpy.run_path(str(copied.parents[2] / "build.py"), run_name="__main__")


def test_a_build_may_require_the_compiled_part(copied, monkeypatch):
    """A release must not ship a wheel that lacks it."""
    monkeypatch.setenv("PENSTOCK_COMPILED", "required")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SystemExit, match="package: its compiled part is required and could not be built"):
        run_build(copied)
    monkeypatch.setenv("PENSTOCK_COMPILED", "yes")
    with pytest.raises(SystemExit, match="PENSTOCK_COMPILED=yes is unknown: write auto, required, none"):
        run_build(copied)


@needs_compiler
def test_a_build_may_leave_the_compiled_part_out(copied, build, monkeypatch, capsys):
    assert build.compile_library(copied) == ""
    monkeypatch.setenv("PENSTOCK_COMPILED", "none")
    run_build(copied)
    assert "built without its compiled part" in capsys.readouterr().out and not (copied / LIBRARY_NAME).exists()


def test_what_is_missing_is_said_once_where_it_is_first_used(copied, caplog):
    library = NativeLibrary(copied, ADD, without="own adds in Python")
    assert library.problem and not caplog.records
    assert not library.usable() and not library.usable()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("own adds in Python: the package was installed without its compiled part")


@needs_compiler
def test_where_nothing_is_missing_nothing_is_said(copied, build, caplog):
    assert build.compile_library(copied) == ""
    assert NativeLibrary(copied, ADD, without="own adds in Python").usable() and not caplog.records


@pytest.mark.parametrize(
    ("package", "module", "use"),
    [
        ("penstock-kafka", "penstock_kafka.client.codec._library", "native_usable"),
        ("penstock-cassandra", "penstock_cassandra.native._cells", "_LIBRARY.usable"),
    ],
)
def test_each_says_what_users_get_without_it(package, module, use):
    """In a process of its own, as a task is one."""
    code = (
        f"import logging; logging.basicConfig(format='%(message)s')\nimport penstock.native\n"
        f"penstock.native.LIBRARY_NAME = 'none.so'\nimport {module} as m\nfor _ in range(3): print(m.{use}())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False"] * 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{package} ") and "without its compiled part" in line
