from __future__ import annotations

import email
import json
import os
import sys
from importlib import metadata
from importlib.metadata import Distribution, EntryPoint, entry_points
from types import SimpleNamespace

import pytest

from penstock import _plugins
from penstock._plugins import find_connector, installed_connectors
from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError
from penstock.options import OptionSet


class Fitting(Connector):
    summary = "fits"

    def describe_guarantee(self):
        return "none"


def make_distribution(folder, name, requires):
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: {requires}\n")
    return Distribution.at(info)


def entry(distribution, name, value):
    point = EntryPoint(name, value, "penstock.connectors")
    return point._for(distribution) if distribution else point


def test_unfitting_is_told_from_metadata_and_not_imported(tmp_path):
    distribution = make_distribution(tmp_path, "penstock-old", "penstock<0.1")
    (listed,) = installed_connectors([entry(distribution, "old", "module_that_must_not_be_imported:X")])
    assert "needs penstock<0.1" in listed.problem and "pip install" in listed.problem
    with pytest.raises(BadConfigurationError, match="can't be used"):
        listed.load()
    assert "module_that_must_not_be_imported" not in sys.modules


def test_fitting(tmp_path):
    distribution = make_distribution(tmp_path, "penstock-good", "penstock>=0.1,<0.2")
    (listed,) = installed_connectors([entry(distribution, "good", f"{__name__}:Fitting")])
    assert (listed.problem, listed.format, listed.version) == ("", "penstock.good", "1.0")


def test_broken_on_import_is_named(tmp_path):
    distribution = make_distribution(tmp_path, "penstock-broken", "penstock")
    (listed,) = installed_connectors([entry(distribution, "broken", "no_such_module_at_all:X")])
    with pytest.raises(BadConfigurationError, match=r"'broken' \(penstock-broken 1.0\) fails on import"):
        listed.load()


def test_what_is_no_connector_is_refused(tmp_path):
    distribution = make_distribution(tmp_path, "penstock-odd", "penstock")
    (listed,) = installed_connectors([entry(distribution, "odd", "collections:Counter")])
    with pytest.raises(BadConfigurationError, match="not a penstock Connector"):
        listed.load()


def test_two_of_one_name(tmp_path):
    one = make_distribution(tmp_path, "penstock-one", "penstock")
    two = make_distribution(tmp_path, "penstock-two", "penstock")
    (listed,) = installed_connectors([entry(one, "same", "a:A"), entry(two, "same", "b:B")])
    assert "also provides it" in listed.problem


@pytest.mark.parametrize("name", ["", " ", "penstock."])
def test_no_name_at_all(name):
    with pytest.raises(BadConfigurationError, match="no connector is named; installed: "):
        find_connector(name)


def test_unknown_name_has_the_nearest():
    with pytest.raises(BadConfigurationError, match="did you mean 'filesystem'"):
        find_connector("penstock.filesytem")


def install(site, name):
    """A package as pip leaves it, but for its module."""
    distribution = make_distribution(site, f"penstock-{name}", "penstock")
    points = f"[penstock.connectors]\n{name} = penstock_{name}:Connector\n"
    (site / f"penstock_{name}-1.0.dist-info" / "entry_points.txt").write_text(points)
    return distribution


@pytest.fixture
def looks(monkeypatch):
    """How often it was looked up what is installed."""
    made = []
    monkeypatch.setattr(_plugins, "entry_points", lambda group: made.append(group) or entry_points(group=group))
    return made


def test_what_is_installed_is_looked_up_once(tmp_path, monkeypatch, looks):
    install(tmp_path, "notes")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(3):
        assert find_connector("penstock.notes").version == "1.0"
        assert find_connector("kafka").name == "kafka"
    assert len(looks) == 1


def test_what_is_installed_meanwhile_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert "notes" not in {one.name for one in installed_connectors()}
    install(tmp_path, "notes")
    os.utime(tmp_path, ns=(0, 1000))  # as if the clock had moved on
    assert "notes" in {one.name for one in installed_connectors()}
    make_distribution(tmp_path, "penstock-letters", "penstock")
    os.utime(tmp_path, ns=(0, 2000))
    assert "letters" not in {one.name for one in installed_connectors()}
    install(tmp_path, "letters")  # a file in a folder that was there: the time of 'tmp_path' stays
    assert find_connector("letters").distribution == "penstock-letters"


def test_the_metadata_of_a_package_are_parsed_once(tmp_path, monkeypatch):
    parsed = []
    install(tmp_path, "notes")
    monkeypatch.setattr(metadata, "email", SimpleNamespace(message_from_string=lambda text: parse(parsed, text)))
    (listed,) = installed_connectors([entry(Distribution.at(tmp_path / "penstock_notes-1.0.dist-info"), "a", "b:C")])
    assert (listed.distribution, listed.version, listed.problem, len(parsed)) == ("penstock-notes", "1.0", "", 1)


def parse(parsed, text):
    parsed.append(text)
    return email.message_from_string(text)


def declares(capabilities, **declared):
    return type("Declared", (Connector,), {"capabilities": frozenset(capabilities), **declared})


@pytest.mark.parametrize(
    ("capabilities", "declared", "says"),
    [
        ({Capability.BATCH_READ}, {}, "batch-read without source_options"),
        ({Capability.STREAM_READ}, {"sink_options": OptionSet([])}, "stream-read without source_options"),
        ({Capability.BATCH_WRITE}, {"source_options": OptionSet([])}, "batch-write without sink_options"),
        ({Capability.STREAM_WRITE}, {}, "stream-write without sink_options"),
        ({Capability.EXACTLY_ONCE}, {}, "exactly-once without batch-write or stream-write"),
        (
            {Capability.RESUMABLE, Capability.BATCH_READ},
            {"source_options": OptionSet([])},
            "resumable without stream-read",
        ),
        ({"exactly-onze"}, {}, "exactly-onze"),
    ],
)
def test_declarations_that_contradict_each_other_are_an_error(capabilities, declared, says):
    with pytest.raises(TypeError, match=says):
        declares(capabilities, **declared)


def test_a_capability_is_its_text():
    connector = declares({"stream-write", "exactly-once"}, sink_options=OptionSet([]))
    assert connector.capabilities == {Capability.STREAM_WRITE, Capability.EXACTLY_ONCE}
    assert f"{Capability.EXACTLY_ONCE}" == str(Capability.EXACTLY_ONCE) == "exactly-once"
    assert json.dumps(sorted(connector.capabilities)) == '["exactly-once", "stream-write"]'
