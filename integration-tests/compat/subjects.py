"""What is tried: environments (a Python, its libraries, a Java) and servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["NOT_RUN", "SUBJECTS", "Environment", "NotRun", "Server", "Subject"]

NEWEST_PYTHON = "3.13"
KAFKAS = ("2.8.2", "3.0.2", "3.4.1", "3.9.1", "4.0.1", "4.3.1", "4.4.0")
#: Cassandra's version → the Java it runs on.
CASSANDRAS = {"3.11.19": "8", "4.0.19": "11", "4.1.10": "11", "5.0.9": "17"}
PRAVEGAS = ("0.12.0", "0.13.0")


@dataclass(frozen=True)
class Environment:
    """A virtual environment. All four connectors run in it, each with the server that the tests use.

    ``lowest`` installs the lowest version of each library that the packages ask for by name, else the newest one.
    ``pins`` are requirements besides, ``instead`` maps a library to one that takes its place. ``java`` is the major
    version of the Java that Spark runs on; empty, it is the one of the machine.
    """

    name: str
    title: str
    python: str = NEWEST_PYTHON
    lowest: bool = False
    pins: tuple[str, ...] = ()
    instead: dict[str, str] = field(default_factory=dict)
    java: str = ""


@dataclass(frozen=True)
class Server:
    """A version of a server. Its connector writes to it and reads from it, with files at the other end.

    It runs in the environment that the tests use. ``java`` is the major version of the server's own Java; empty, it is
    the one of the machine.
    """

    name: str
    title: str
    system: Literal["kafka", "cassandra", "pravega"]
    version: str
    java: str = ""


@dataclass(frozen=True)
class NotRun:
    """What users ask for and the smoke test does not run with. ``why`` is a cell of the page."""

    title: str
    why: str


Subject = Environment | Server

SUBJECTS: tuple[Subject, ...] = (
    *(Environment(f"python-{version}", f"Python {version}", version) for version in ("3.10", "3.11", "3.12", "3.13")),
    Environment("python-3.14", "Python 3.14", "3.14"),
    Environment("lowest", "the lowest version of every library", "3.10", lowest=True),
    Environment("spark-4.2.1", "Spark 4.2.1", pins=("pyspark==4.2.1",)),
    *(Environment(f"java-{version}", f"Java {version}", java=version) for version in ("17", "21", "25")),
    Environment("scylla-driver", "ScyllaDB's driver", instead={"cassandra-driver": "scylla-driver>=3.29,<4"}),
    *(Server(f"kafka-{version}", f"Apache Kafka {version}", "kafka", version) for version in KAFKAS),
    *(
        Server(f"cassandra-{version}", f"Apache Cassandra {version}", "cassandra", version, java)
        for version, java in CASSANDRAS.items()
    ),
    *(Server(f"pravega-{version}", f"Pravega {version}", "pravega", version) for version in PRAVEGAS),
)

_SERVICE = "a service: needs an account, which no test has"
_NO_PACKAGE = "no registry that the tests install from has its server"
NOT_RUN: tuple[NotRun, ...] = (
    NotRun("Spark 4.1 and older", "refused: the first use says that Penstock needs PySpark 4.2"),
    NotRun(
        "Linux on `aarch64`", "no such machine: the compiled libraries were loaded in an emulator, and no job was run"
    ),
    NotRun("Linux with musl", "PySpark was not run there: the compiled libraries for `x86_64` were loaded, no more"),
    NotRun(
        "franz-go's kfake",
        "`test_brokers.py` reads and writes with it, exactly once with `client=protocol`; no process is killed there",
    ),
    NotRun(
        "Apache Kafka 2.8 in its early KRaft mode",
        "not supported: a query hung with it when it was tried by hand. Use ZooKeeper mode, or Kafka 3.0",
    ),
    NotRun("Redpanda", _NO_PACKAGE),
    NotRun("Tansu", "never tried: it would have to be compiled first"),
    NotRun("Amazon MSK", _SERVICE),
    NotRun("Azure Event Hubs", _SERVICE),
    NotRun("ScyllaDB's server", f"{_NO_PACKAGE}; its driver works with Cassandra (above)"),
)
