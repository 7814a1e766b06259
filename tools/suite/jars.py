"""What the servers of the selected tests are made of: fetched before the first test runs, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from penstock._plugins import find_connector
from penstock.dev import JarSet, fetch_jars
from penstock.dev._ways import choose_way
from penstock.errors import PenstockError
from suite import azure, hdfs, kafka_classes

__all__ = ["EVERY", "fetch"]

#: The connectors whose servers the tests of a directory start.
_SERVERS = {
    "connectors/kafka/": ("kafka",),
    "connectors/cassandra/": ("cassandra",),
    "connectors/pravega/": ("pravega",),
    "integration-tests/": ("kafka", "cassandra", "pravega"),
}
#: Stands for all tests.
EVERY = (*_SERVERS, "azure", "hdfs")


def fetch(nodeids: Iterable[str], say: Callable[[str], None]) -> None:
    """Fetches what is missing for these tests; ``say`` gets a line for each jar.

    What can't be fetched is left to the tests, whose errors name what to do.
    """
    nodeids = list(nodeids)
    directories = {place for nodeid in nodeids for place in _SERVERS if nodeid.startswith(place)}
    for name in sorted({name for place in directories for name in _SERVERS[place]}):
        server = find_connector(name).load().dev_server()
        if server is None or server.jars is None or choose_way(server) != "process":
            continue
        with _said(say):
            _fetch(server.jars, server.title, say)
            if name == "kafka":
                kafka_classes.make(say)
    if any("azure" in nodeid for nodeid in nodeids):
        with _said(say):
            azure.fetch(say)
    if any("hdfs" in nodeid for nodeid in nodeids):
        with _said(say):
            _fetch(hdfs.JARS, hdfs.NameNode.title, say)


def _fetch(jars: JarSet, title: str, say: Callable[[str], None]) -> None:
    if not jars.folder.is_dir():
        fetch_jars(jars, lambda line: say(f"{title}: {line}"))


@contextmanager
def _said(say: Callable[[str], None]) -> Iterator[None]:
    try:
        yield
    except PenstockError as error:
        say(str(error))
