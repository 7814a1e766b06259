"""A real server for every test: the one that PENSTOCK_PRAVEGA_ADDRESS names, or one of the test run's own."""

from __future__ import annotations

import uuid

import pytest

from penstock.dev import open_server
from penstock_pravega import PravegaConnector
from penstock_pravega.client import _segment_stores
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from suite.kept import kept_for_directory
from suite.sources import SourceHarness

#: Everything that the tests of this directory write stays in its heap. With a smaller one, the case about memory leaves
#: the server little but garbage collection to do, and its controller answers too late.
_SERVER = PravegaDevServer(quick_start=True, heap_mb=1536)


@pytest.fixture(scope="module")
def pravega_address(request, tmp_path_factory):
    return kept_for_directory(request, "pravega", lambda: open_server(_SERVER, tmp_path_factory.mktemp("pravega")))


@pytest.fixture(scope="module")
def pravega(pravega_address):
    """A :class:`PravegaToolbox` in a scope of the file's own: take streams of your own."""
    toolbox = PravegaToolbox(pravega_address, f"tests-{uuid.uuid4().hex[:8]}")
    yield toolbox
    toolbox.close()


@pytest.fixture
def no_pauses(monkeypatch):
    """What a segment store refuses is tried again almost at once: for tests in which nothing has to pass meanwhile."""
    monkeypatch.setattr(_segment_stores, "_PAUSE_S", 0.001)


@pytest.fixture
def pravega_source(pravega):
    """``pravega_source(stream=name, …)``: a :class:`SourceHarness` on the shared server."""
    where = {"controller": pravega.address, "scope": pravega.scope}
    return lambda **options: SourceHarness(PravegaConnector(), where, **options)
