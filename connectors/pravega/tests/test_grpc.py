"""gRPC does not keep a process that has used it from starting others, nor a connection that is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock_pravega.client import Controller, ControllerSettings
from penstock_pravega.client._grpc import grpc
from penstock_pravega.client._messages import message
from suite.bad_network import BadNetwork

_SHOW = "import os, penstock_pravega.client; print(os.environ['GRPC_ENABLE_FORK_SUPPORT'])"


@pytest.mark.parametrize(("given", "used"), [(None, "0"), ("1", "1")])
def test_forks_are_left_alone_unless_someone_decided_otherwise(given, used):
    variables = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    variables |= {"GRPC_ENABLE_FORK_SUPPORT": given} if given else {}
    shown = subprocess.run([sys.executable, "-c", _SHOW], env=variables, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == used


class Exists(grpc.GenericRpcHandler):
    """A controller that has every stream."""

    def service(self, details):
        found = message("Exists", exists=True)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: found.SerializeToString())


@pytest.fixture
def to_a_controller():
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Exists()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with BadNetwork(f"127.0.0.1:{port}") as network:
        yield network
        server.stop(None)


def test_a_connection_on_which_nothing_is_answered_is_given_up(to_a_controller, monkeypatch):
    monkeypatch.setattr("penstock_pravega.client._controller._PAUSE_S", 0.0)
    settings = ControllerSettings(f"tcp://{to_a_controller.address}", timeout_s=0.5, tries=2)
    controller, another = Controller(settings), Controller(settings)
    assert controller.stream_exists("scope", "stream") and another.stream_exists("scope", "stream")
    to_a_controller.half_open()
    assert controller.stream_exists("scope", "stream"), "and not by the connection that the other one still has"
    controller.close()
    another.close()
