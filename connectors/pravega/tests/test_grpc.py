"""gRPC does not keep a process that has used it from starting others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_SHOW = "import os, penstock_pravega.client; print(os.environ['GRPC_ENABLE_FORK_SUPPORT'])"


@pytest.mark.parametrize(("given", "used"), [(None, "0"), ("1", "1")])
def test_forks_are_left_alone_unless_someone_decided_otherwise(given, used):
    variables = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    variables |= {"GRPC_ENABLE_FORK_SUPPORT": given} if given else {}
    shown = subprocess.run([sys.executable, "-c", _SHOW], env=variables, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == used
