"""What tests leave open is closed with its server."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.per_process import PerProcess
from penstock_cassandra.client import ConnectionSettings
from suite import cassandra


@pytest.mark.parametrize("most", [1, 9])
def test_a_client_that_is_in_use_is_closed_also_if_it_is_not_handed_out_any_more(monkeypatch, most):
    closed = []

    def connect(settings):
        return SimpleNamespace(close=lambda: closed.append(settings.user))

    shared = PerProcess(connect, close=lambda client: client.close(), most=most)
    monkeypatch.setattr(cassandra, "_client", SimpleNamespace(_shared=shared))
    for number, port in enumerate((1, 1, 2, 1)):
        shared.acquire(ConnectionSettings(hosts=("a",), port=port, user=str(number)))
    shared.get(ConnectionSettings(hosts=("a",), port=1, user="idle"))
    cassandra.close_clients({1})
    assert sorted(closed) == ["0", "1", "3", "idle"]
    cassandra.close_clients({1, 2})
    assert sorted(closed) == ["0", "1", "2", "3", "idle"], "each once"
