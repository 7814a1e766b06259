"""gRPC does not keep a process that has used it from starting others, nor a connection that is dead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.errors import RetriableError
from penstock_pravega.client import Controller, ControllerSettings
from penstock_pravega.client._controller import _is_settings_frame
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


class Late(grpc.GenericRpcHandler):
    """A controller that answers when the test is over."""

    def __init__(self):
        self.over = threading.Event()

    def service(self, details):
        def answer(request, context):
            self.over.wait(60)
            return message("Exists", exists=True).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def to_a_late_controller():
    late = Late()
    server = grpc.server(ThreadPoolExecutor(2), handlers=[late])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield ControllerSettings(f"tcp://127.0.0.1:{port}", timeout_s=0.5, tries=1)
    late.over.set()
    server.stop(0)


def test_a_controller_that_is_late_at_the_first_call_is_waited_for(to_a_late_controller):
    """Its first bytes, which come before any request, are those of its protocol."""
    controller = Controller(to_a_late_controller)
    with pytest.raises(RetriableError, match="no answer from the controller"):
        controller.create_scope("s")
    controller.close()


def test_what_controllers_say_first():
    """As Pravega 0.13 says it; a server of SSH says something else."""
    assert _is_settings_frame(bytes.fromhex("00001204000000000000037fffffff000400100000000600"))
    assert not _is_settings_frame(b"SSH-2.0-OpenSSH_9.6\r\n")
