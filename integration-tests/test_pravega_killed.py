"""Pravega to Pravega, with tasks killed by SIGKILL."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from penstock.dev import open_server
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox

WRITER = "penstock_pravega.sink._writers:TransactionalWriter"


@pytest.fixture(scope="module")
def pravega(tmp_path_factory):
    with open_server(PravegaDevServer(quick_start=True), tmp_path_factory.mktemp("pravega")) as address:
        toolbox = PravegaToolbox(address, f"killed-{uuid.uuid4().hex[:8]}")
        yield toolbox
        toolbox.close()


@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", [f"{WRITER}.write:after:1", f"{WRITER}.prepare_commit:after:2"])
def test_task_killed(driver, pravega, point):
    """Spark runs the task again; the first attempt's transaction never becomes visible."""
    source, target = pravega.create_stream(segments=2), pravega.create_stream(segments=2)
    values = [b"k%d:%06d" % (number % 9, number) for number in range(400)]
    pravega.write(source, [(value.split(b":")[0].decode(), value) for value in values])
    job = {"controller": pravega.address, "within": pravega.scope, "in": source, "out": target, "per_trigger": 100}
    driver("copy_pravega", fault=point, scope="worker", **job).wait(600)
    run = driver("copy_pravega", **job)
    assert run.wait(600) == 0, run.tail()
    assert Counter(pravega.values(target)) == Counter(values)
