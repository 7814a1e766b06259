"""Hostile bytes: a corpus for every decoder, a registry that is complete, and a fuzzer that notices faults."""

from __future__ import annotations

import ast
import importlib
import time
from pathlib import Path

import pytest

from fuzz import campaign, native, registry
from fuzz.mutator import Mutator
from fuzz.registry import SERIALIZERS, TARGETS, TRUSTED
from penstock.serialization import SimpleVersionedSerializer

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "core/src", *sorted((ROOT / "connectors").glob("*/src"))]
#: What a module calls that takes bytes, or a text from outside, apart.
TAKES_APART = {
    *("unpack_from", "iter_unpack", "loads", "frombuffer", "from_bytes", "decompress", "decompressobj", "b64decode"),
    *(
        "CompressedInputStream",
        "schemaless_reader",
        "open_stream",
        "read_schema",
        "read_csv",
        "read_json",
        "ParquetFile",
    ),
    *("raw_decode", "_import_from_c", "compose", "recv_into", "json_decoder"),
}
#: With the module: as attributes of others these mean something else.
CALLS = {"struct.unpack", "fastavro.reader", "json.load", "lzma.open"}
#: Programs and test kits, which read what they wrote themselves.
LEFT_OUT = ("penstock.testing", "penstock.dev", "penstock_kafka.dev", "penstock_cassandra.dev", "penstock_pravega.dev")


@pytest.fixture(scope="module")
def outcomes():
    """Every target in one child process, which a crash would end: what it always tries, and some mutated inputs."""
    return {found.target: found for found in campaign.run(TARGETS, seed=7, count=10)}


@pytest.mark.budget(10)
@pytest.mark.parametrize("name", [target.name for target in TARGETS])
def test_hostile_bytes_end_in_values_or_clear_errors(outcomes, name):
    found = outcomes[name]
    assert not found.problem, f"{found.problem}\n{found.data[:200]!r}"
    assert found.tried > 10


def test_the_corpus_has_hundreds_of_inputs():
    assert sum(len(target.seeds()) + len(target.inputs()) + len(target.refused()) for target in TARGETS) > 300


@pytest.mark.parametrize("name", native.DRIVERS)
@pytest.mark.exhaustive("compiles with sanitizers; test_hostile_bytes_end_in_values_or_clear_errors is the witness")
def test_the_compiled_parts_touch_no_byte_that_is_not_theirs(name):
    found = native.run(name, seed=1, count=20_000)
    assert not found.problem, found.problem
    assert found.tried == 20_000


# --- the registry -----------------------------------------------------------------------------------------------------


def modules():
    for source in SOURCES:
        for path in source.rglob("*.py"):
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            if not name.startswith(LEFT_OUT):
                yield name, path


def takes_apart(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in TAKES_APART or ast.unparse(function) in CALLS:
                return True
    return False


def test_every_module_that_takes_bytes_apart_is_fuzzed_or_trusted_for_a_reason():
    found = {name for name, path in modules() if takes_apart(path)}
    fuzzed = {name for target in TARGETS for name in target.reads}
    known = {name for name, _ in modules()}
    assert len(found) > 30
    assert not found - fuzzed - set(TRUSTED), "add a target, or say in TRUSTED why its bytes are not from outside"
    assert not (fuzzed | set(TRUSTED)) - known, "there is no such module"
    assert not set(TRUSTED) - found, "it takes nothing apart any more"
    assert not set(TRUSTED) & fuzzed


def test_every_serializer_of_stored_forms_is_fuzzed():
    registered = [serializer for serializer, _ in SERIALIZERS.values()]
    found = []
    for name, path in modules():
        if "Serializer" in path.read_text():
            values = vars(importlib.import_module(name.removesuffix(".__init__"))).values()
            found += [one for one in values if isinstance(one, SimpleVersionedSerializer)]
    assert len({id(one) for one in found}) == len(registered)
    assert all(any(one is other for other in registered) for one in found)


def test_every_form_of_a_serializer_has_seeds_that_it_reads():
    for serializer, seeds in SERIALIZERS.values():
        for seed in seeds():
            registry.stored.read_form(serializer, seed)


def test_names_are_unique_and_every_reason_is_given():
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    assert all(len(reason) > 10 for reason in TRUSTED.values())


# --- the fuzzer -------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_inputs():
    first, second, other = (Mutator(seed, [b"abc" * 20, b"xyz"]) for seed in (5, 5, 6))
    inputs = [first.next() for _ in range(200)]
    assert inputs == [second.next() for _ in range(200)]
    assert inputs != [other.next() for _ in range(200)]
    assert len(set(inputs)) > 150


#: Kind of fault → what the fuzzer says of it.
FAULTS = {
    "crash": "SIGSEGV",
    "hang": "of the processor",
    "memory": "MemoryError",
    "wrong_error": "KeyError",
    "no_place": "does not say where",
    "taken": "it is taken, and has to be refused",
    "long": "characters",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_noticed(kind, monkeypatch):
    from fuzz import faults

    (target,) = [one for one in faults.TARGETS if one.name == kind]
    monkeypatch.setenv("PENSTOCK_FUZZ_REGISTRY", "fuzz.faults")
    began = time.monotonic()
    (found,) = campaign.run([target], seed=1, count=5)
    assert FAULTS[kind] in found.problem, found.problem
    assert found.data == b"hostile"
    assert time.monotonic() - began < 100


def test_what_comes_after_a_crash_is_tried(monkeypatch):
    from fuzz import faults

    monkeypatch.setenv("PENSTOCK_FUZZ_REGISTRY", "fuzz.faults")
    chosen = [one for one in faults.TARGETS if one.name in ("crash", "fine")]
    crashed, fine = campaign.run(chosen, seed=1, count=5)
    assert crashed.problem and not fine.problem and fine.tried == 7


def test_an_input_is_tried_again(tmp_path, monkeypatch):
    from fuzz import faults

    monkeypatch.setenv("PENSTOCK_FUZZ_REGISTRY", "fuzz.faults")
    path = tmp_path / "input"
    for data, problem in ((b"hostile", "KeyError"), (b"other", "")):
        path.write_bytes(data)
        (target,) = [one for one in faults.TARGETS if one.name == "wrong_error"]
        found = campaign.again(target, path)
        assert problem in found.problem and bool(found.problem) == bool(problem)
