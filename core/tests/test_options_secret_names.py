from __future__ import annotations

import pickle
from types import SimpleNamespace

from penstock.cli._secrets import redactor_of
from penstock.options import Option, OptionSet


def _is_secret(name: str) -> bool:
    return "password" in name.lower()


DECLARED = OptionSet([Option("path", "Where"), Option("client.*", "Settings", secret_names=_is_secret)])
GIVEN = {"path": "x", "client.user": "anna", "CLIENT.Password": "hunter2"}


def test_a_prefix_says_which_of_its_names_are_secret():
    values = DECLARED.parse(GIVEN, owner="source penstock.t")
    assert "hunter2" not in repr(values) and "anna" in repr(values)
    assert values.texts(secrets=False) == {"path": "x", "client.user": "anna"}
    assert values.texts(secrets=True) == GIVEN
    assert [DECLARED.is_secret(n) for n in ("client.user", "client.PASSWORD", "path", "unknown")] == [0, 1, 0, 1]


def test_it_survives_pickling():
    values = pickle.loads(pickle.dumps(DECLARED.parse(GIVEN, owner="t")))
    assert values.texts(secrets=False)["client.user"] == "anna" and "hunter2" not in repr(values)


def test_the_commands_hide_such_values(monkeypatch):
    connector = SimpleNamespace(source_options=DECLARED, sink_options=None)
    found = SimpleNamespace(load=lambda: connector)
    monkeypatch.setattr("penstock.cli._secrets.find_connector", lambda name: found)
    source = SimpleNamespace(format="penstock.t", is_ours=True, options=GIVEN)
    pipeline = SimpleNamespace(spark={}, sources=[source], sinks=[])
    assert redactor_of(pipeline)("anna hunter2") == "anna ***"
