from __future__ import annotations

import sys
from importlib.metadata import Distribution, EntryPoint

import pytest

from penstock import BadConfigurationError
from penstock.plugins import Connector, find_connector, installed_connectors


class Fitting(Connector):
    summary = "fits"

    def describe_guarantee(self):
        return "none"


def make_distribution(folder, name, requires):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
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


def test_unknown_name_has_the_nearest():
    with pytest.raises(BadConfigurationError, match="did you mean 'filesystem'"):
        find_connector("penstock.filesytem")
