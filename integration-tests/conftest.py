"""The harness as fixtures: drivers that end with their test, and servers that the tests of this directory share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from environments import WheelHouse
from harness.cluster import Cluster
from harness.driver import Driver
from harness.feeding import CsvFiles
from harness.systems import Bucket, pravega_server
from harness.watcher import WatchedCopy
from penstock.dev import LocalServer
from penstock_kafka.dev import KafkaToolbox, kafka_server
from penstock_pravega.dev import PravegaToolbox
from suite import fault_points
from suite.cassandra import CassandraToolbox, cassandra_toolbox
from suite.kept import kept_for_directory
from suite.s3 import S3Server

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A fault point that does not exist is an error now, not after minutes."""
    parameters: dict[ModuleType, list[object]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and str(item.path).startswith(f"{HERE}{os.sep}"):
            of_module = parameters.setdefault(item.module, [])
            of_module += item.callspec.params.values() if hasattr(item, "callspec") else ()
    for module, values in parameters.items():
        if problems := fault_points.unresolved(module, values):
            raise pytest.UsageError(f"{module.__file__}: no such fault point:\n" + "\n".join(problems))


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """``driver(job, fault="", scope="", action="", **arguments)`` starts a driver in the test's directory."""
    started: list[Driver] = []

    def start(job: str, fault: str = "", scope: str = "", action: str = "", **arguments: object) -> Driver:
        started.append(Driver(tmp_path, job, arguments, fault, scope, action))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def csv_files(tmp_path: Path) -> CsvFiles:
    """Writes files into ``in/`` of the test's directory."""
    return CsvFiles(tmp_path / "in")


@pytest.fixture
def watched_copy() -> Iterator[Callable[..., WatchedCopy]]:
    """``watched_copy(kafka, partitions=2, into=2)`` creates two topics, one to feed and one that it watches."""
    started: list[WatchedCopy] = []

    def start(kafka: KafkaToolbox, **partitions: int) -> WatchedCopy:
        started.append(WatchedCopy(kafka, **partitions))
        return started[-1]

    yield start
    for one in started:
        one.reader.stop()


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> WheelHouse:
    """Wheels of any project, each built once."""
    return WheelHouse(tmp_path_factory.mktemp("wheels"))


# --- servers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def new_bucket(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Bucket]:
    """``new_bucket(endpoint)`` creates a bucket for which drivers have credentials."""
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return Bucket


@pytest.fixture
def bucket(s3_server: S3Server, new_bucket: Callable[[str], Bucket]) -> Bucket:
    return new_bucket(s3_server.endpoint)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """For every test here: executors are an application's own, so that one may be killed."""
    return kept_for_directory(request, "cluster", lambda: Cluster(tmp_path_factory.mktemp("cluster")))


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LocalServer:
    """A broker of our own, which may be killed by a test that starts it again. It ends transactions that are too old at
    once.
    """
    folder = tmp_path_factory.mktemp("kafka")
    properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    return kept_for_directory(request, "kafka", lambda: kafka_server(folder, properties, quick_start=True))


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest) -> KafkaToolbox:
    """A broker for every test here: the one of ``PENSTOCK_KAFKA_ADDRESS``, or one of our own."""
    return KafkaToolbox(os.environ.get("PENSTOCK_KAFKA_ADDRESS") or request.getfixturevalue("broker").address)


@pytest.fixture(scope="module")
def pravega(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PravegaToolbox:
    """The server of ``PENSTOCK_PRAVEGA_ADDRESS``, or one of our own, with a scope for every test here."""
    return kept_for_directory(request, "pravega", lambda: pravega_server(tmp_path_factory.mktemp("pravega")))


@pytest.fixture(scope="module")
def cassandra(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CassandraToolbox:
    """The node of ``PENSTOCK_CASSANDRA_ADDRESS``, or one of our own, with a keyspace for every test here."""
    return kept_for_directory(request, "cassandra", lambda: cassandra_toolbox(tmp_path_factory.mktemp("cassandra")))
