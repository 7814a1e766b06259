"""Running real drivers as processes, and counting what came out."""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark
import pytest

from environments import WheelHouse
from suite import fault_points
from suite.kept import kept_for_directory
from suite.s3 import S3Server

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A fault point that does not exist is an error now, not after minutes."""
    mine = [item for item in items if isinstance(item, pytest.Function) and HERE in item.path.parents]
    for module in {item.module for item in mine}:
        calls = [item.callspec for item in mine if item.module is module and hasattr(item, "callspec")]
        parameters = [value for call in calls for value in call.params.values()]
        if problems := fault_points.unresolved(module, parameters):
            raise pytest.UsageError(f"{module.__file__}: no such fault point:\n" + "\n".join(problems))


def jvm_options() -> str:
    """For ``SPARK_SUBMIT_OPTS``: how to start quickly, for executors too.

    Batches here have few rows, for which compiling code takes longer than interpreting the plan.
    """
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    without_compiling = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
    return f'{given} {without_compiling} "-Dspark.executor.extraJavaOptions={given}"'


class Driver:
    """One Spark driver in a process group of its own, running ``jobs/<name>.py`` with ``key=value`` arguments.

    A ``fault`` (see ``faults/sitecustomize.py``; several with ``;``) ends or stops it, or with ``scope="worker"`` a
    task, at a chosen call.
    """

    def __init__(
        self, folder: Path, job: str, arguments: dict[str, object], fault: str = "", scope: str = "", action: str = ""
    ) -> None:
        self.folder = folder
        self.fault = fault
        self._stops = action == "stop"
        counter = folder / f"fault-{time.time_ns()}"
        self.log = folder / f"driver-{time.time_ns()}.log"
        self.hits: list[tuple[int, int]] = []
        """Number of the fault point and process id, of each that was hit and is known of."""
        self._pipe = -1
        if fault:
            os.mkfifo(f"{counter}.hit")
            # Open for writing as well: nobody who writes a line into it waits for us.
            self._pipe = os.open(f"{counter}.hit", os.O_RDWR | os.O_NONBLOCK)
        environment = dict(
            os.environ,
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_SUBMIT_OPTS=jvm_options(),
            PYSPARK_PYTHON=sys.executable,
            PYSPARK_DRIVER_PYTHON=sys.executable,
            PYTHONPATH=str(HERE / "faults"),
            FAULT_POINT=fault,
            FAULT_COUNTER=str(counter),
            FAULT_SCOPE=scope,
            FAULT_ACTION=action,
        )
        environment.pop("SUITE_COVER", None)  # measuring coverage in each of its processes takes as long as they do
        command = [sys.executable, str(HERE / "jobs" / f"{job}.py"), *(f"{k}={v}" for k, v in arguments.items())]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True
            )

    def wait(self, timeout: float = 420) -> int:
        """The exit status; negative if a signal ended it."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end in {timeout} s:\n{self.tail()}") from None

    def kill(self) -> None:
        """SIGKILL to driver and JVM, and first to what a fault point has stopped: the end of its parent would wake it
        up.
        """
        for _, pid in self._look() if self._stops else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def close(self) -> None:
        """Kills it, if it runs, and lets go of the pipe."""
        if self.process.poll() is None:
            self.kill()
        if self.fault:
            os.close(self._pipe)

    def _look(self) -> list[tuple[int, int]]:
        with contextlib.suppress(BlockingIOError):
            while self.fault and (lines := os.read(self._pipe, 1 << 16).decode()):
                self.hits += [(int(number), int(pid)) for number, pid in map(str.split, lines.splitlines())]
        return self.hits

    def was_hit(self) -> bool:
        """Whether all fault points were reached."""
        return {number for number, _ in self._look()} == set(range(len(self.fault.split(";"))))

    def wait_for_kill(self) -> None:
        """Waits for the end, to which the fault point has to have brought it."""
        self.wait()
        assert self.was_hit(), f"the run never came to {self.fault}:\n{self.tail()}"

    def wait_for_hits(self, number: int = 1, timeout: float = 240) -> None:
        """Returns when so many processes have reached fault points."""
        deadline = time.monotonic() + timeout
        end = os.pidfd_open(self.process.pid)
        try:
            with selectors.DefaultSelector() as selector:  # select() takes no file above the 1,024th
                for file in (self._pipe, end):
                    selector.register(file, selectors.EVENT_READ)
                while len(self._look()) < number:
                    ready = [key.fd for key, _ in selector.select(max(0.0, deadline - time.monotonic()))]
                    assert self._pipe in ready, f"only {len(self.hits)} of {number} hits\n{self.tail()}"
        finally:
            os.close(end)

    def stop(self) -> None:
        """SIGSTOP to driver and JVM."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a stopped driver go on, and what fault points have stopped."""
        os.killpg(self.process.pid, signal.SIGCONT)
        for _, pid in self._look():
            # A process reports its hit just before it stops itself: a SIGCONT in between would be lost.
            _await_stop(pid)
            os.kill(pid, signal.SIGCONT)

    def tail(self, lines: int = 40) -> str:
        """The end of the driver's output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def last_words(self) -> str:
        """The last line on the screen (jobs with ``log=OFF``), but for the bar of a stage that goes on in the
        background; all of it before Python 3.11, which knows no notes.
        """
        lines = [line for line in self.tail(1000).splitlines() if line.strip() and not line.startswith("[Stage ")]
        return "\n".join(lines[-1:] if sys.version_info >= (3, 11) else lines)


def _await_stop(pid: int, timeout: float = 60) -> None:
    """Returns when the process is stopped by a signal, or is gone."""
    deadline = time.monotonic() + timeout
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
            assert time.monotonic() < deadline, f"process {pid} was hit and does not stop"
            time.sleep(0.01)


@pytest.fixture
def driver(tmp_path: Path) -> Callable[..., Driver]:
    started: list[Driver] = []

    def start(job: str, fault: str = "", scope: str = "", action: str = "", **arguments: object) -> Driver:
        started.append(Driver(tmp_path, job, arguments, fault, scope, action))
        return started[-1]

    yield start
    for one in started:
        one.close()


def finished_rows(directory: Path, column: str = "id") -> Counter:
    """How often each value of ``column`` stands in the finished Parquet files, as any reader sees them."""
    files = [
        str(p) for p in directory.rglob("*.parquet") if not any(x[0] in "._" for x in p.relative_to(directory).parts)
    ]
    return (
        Counter(ds.dataset(files, format="parquet").to_table([column]).column(column).to_pylist())
        if files
        else Counter()
    )


def check_exactly_once(directory: Path, expected: range) -> None:
    """Raises with the numbers of lost and doubled rows."""
    rows = finished_rows(directory)
    lost, doubled = [i for i in expected if i not in rows], [i for i, n in rows.items() if n > 1]
    strange = [i for i in rows if i not in expected]
    assert (len(lost), len(doubled), strange[:5]) == (0, 0, []), f"lost {lost[:5]}, doubled {doubled[:5]}"


@pytest.fixture
def exactly_once() -> Callable[[Path, range], None]:
    return check_exactly_once


@pytest.fixture
def rows_of() -> Callable[..., Counter]:
    return finished_rows


@pytest.fixture
def csv_files(tmp_path: Path) -> Callable[..., range]:
    """Writes files ``in/NNNN.csv`` with consecutive ids; gives the whole range so far."""

    def write(files: int, rows: int, first: int = 0) -> range:
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        for number in range(files):
            start = first + number * rows
            lines = "".join(f"{i},2024-01-01T00:00:{i % 60:02d},note {i}\n" for i in range(start, start + rows))
            hidden = folder / f".{start:08d}.csv"
            hidden.write_text("id,at,note\n" + lines)
            hidden.rename(folder / f"{start:08d}.csv")
        return range(first + files * rows)

    return write


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> WheelHouse:
    """Wheels of any project, each built once."""
    return WheelHouse(tmp_path_factory.mktemp("wheels"))


class S3:
    """A bucket of its own."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.bucket = f"penstock-test-{uuid.uuid4().hex[:8]}"
        self.client.create_bucket(Bucket=self.bucket)

    @property
    def client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """What is in the visible Parquet objects."""
        for key in self.keys():
            if key.endswith(".parquet") and "/." not in f"/{key}":
                body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
                yield pq.read_table(io.BytesIO(body), columns=columns)

    def rows(self, column: str = "id") -> Counter:
        """How often each value stands in them."""
        return Counter(value for table in self.tables([column]) for value in table.column(0).to_pylist())

    def open_uploads(self) -> list[str]:
        return [u["Key"] for u in self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])]


@pytest.fixture
def new_s3(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], S3]:
    """``new_s3(endpoint)``: a bucket there, for which drivers have credentials."""
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return S3


@pytest.fixture
def s3(s3_server: S3Server, new_s3: Callable[[str], S3]) -> S3:
    return new_s3(s3_server.endpoint)


class Cluster:
    """A Spark standalone cluster out of the installed package: a master and two workers with one core each.

    The workers call themselves by different host names (both are 127.0.0.1): Spark puts a speculative attempt only on
    another host.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(port))
        for host in ("127.0.0.1", "localhost"):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{host}"))
            self._start("worker.Worker", "--host", host, *work, self.url)
        deadline = time.monotonic() + 90
        while self._log().count("Successfully registered with master") < 2:
            assert time.monotonic() < deadline, self._log()[-3000:]
            time.sleep(0.05)

    def _start(self, role: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = dict(
            os.environ,
            SPARK_HOME=str(home),
            SPARK_LOCAL_IP="127.0.0.1",
            PYSPARK_PYTHON=sys.executable,
            SPARK_DAEMON_JAVA_OPTS=os.environ.get("SPARK_SUBMIT_OPTS", ""),
        )
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{role}",
            "--webui-port",
            "0",
            *arguments,
        ]
        with open(self.folder / f"spark-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self.processes.append(process)

    def _log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("spark-*.log")))

    def executors(self) -> list[int]:
        """Process ids of the executors that run now."""
        groups = {process.pid for process in self.processes}
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                is_executor = b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes()
                if is_executor and os.getpgid(int(folder.name)) in groups:
                    found.append(int(folder.name))
        return found

    def kill_executors(self, run: Driver, commits: Path, times: int = 2) -> None:
        """SIGKILL to an executor, so many times while ``run`` goes on, each some batches after the one before."""
        for number in range(times):
            self.kill_executor(run, lambda more=2 * number: len(list(commits.glob("[0-9]*"))) > more)

    def kill_executor(self, run: Driver, is_time: Callable[[], bool]) -> None:
        """SIGKILL to an executor while ``run`` goes on, as soon as it is time and there is one."""
        deadline = time.monotonic() + 200
        while not (is_time() and (victims := self.executors())):
            assert time.monotonic() < deadline and run.process.poll() is None, run.tail()
            time.sleep(0.02)
        os.kill(victims[0], signal.SIGKILL)

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    started = Cluster(folder)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """For every test here: executors are an application's own, so that one may be killed."""
    folder = tmp_path_factory.mktemp("cluster")
    return kept_for_directory(request, "cluster", lambda: running_cluster(folder))


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A broker of our own, which may be killed by a test that starts it again. It ends transactions that are too old at
    once."""
    from penstock_kafka.dev import kafka_server

    folder = tmp_path_factory.mktemp("kafka")
    properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    return kept_for_directory(request, "kafka", lambda: kafka_server(folder, properties, quick_start=True))


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest) -> Any:
    """A broker for every test here: the one of ``PENSTOCK_KAFKA_ADDRESS``, or one of our own."""
    from penstock_kafka.dev import KafkaToolbox

    return KafkaToolbox(os.environ.get("PENSTOCK_KAFKA_ADDRESS") or request.getfixturevalue("broker").address)


@contextlib.contextmanager
def running_pravega(folder: Path) -> Iterator[Any]:
    from penstock.dev import open_server
    from penstock_pravega.dev import PravegaDevServer, PravegaToolbox

    with open_server(PravegaDevServer(quick_start=True), folder) as address:
        toolbox = PravegaToolbox(address, f"killed-{uuid.uuid4().hex[:8]}")
        yield toolbox
        toolbox.close()


@pytest.fixture(scope="module")
def pravega(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The server of ``PENSTOCK_PRAVEGA_ADDRESS``, or one of our own, with a scope for every test here."""
    folder = tmp_path_factory.mktemp("pravega")
    return kept_for_directory(request, "pravega", lambda: running_pravega(folder))


class Cassandra:
    """A node with a keyspace of its own. ``job`` is where it is, for a driver."""

    def __init__(self, address: str) -> None:
        from penstock_cassandra.client import ConnectionSettings, shared_client

        host, _, port = address.rpartition(":")
        self._client = shared_client(ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=120))
        self.keyspace = "t" + uuid.uuid4().hex[:12]
        self.job = {"address": address, "keyspace": self.keyspace}
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self._client.rows(f"create keyspace {self.keyspace} with replication = {replication}")

    def table(self, columns: str) -> str:
        """A new table; its name."""
        name = "t" + uuid.uuid4().hex[:12]
        self._client.rows(f"create table {self.keyspace}.{name} ({columns})")
        return name

    def add(self, table: str, ids: range) -> None:
        """Rows with nothing but a key ``id``."""
        for number in ids:
            self._client.rows(f"insert into {self.keyspace}.{table} (id) values (?)", (number,))

    def set(self, table: str, column: str, values: dict[int, str]) -> None:
        """The column of the rows with these ids."""
        for number, value in values.items():
            statement = f"update {self.keyspace}.{table} set {column} = ? where id = ?"
            self._client.rows(statement, (value, number))

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return self._client.rows(f"select {columns} from {self.keyspace}.{table}")


@contextlib.contextmanager
def running_cassandra(folder: Path) -> Iterator[Cassandra]:
    from penstock.dev import open_server
    from suite.cassandra import QuickServer, close_clients

    with open_server(QuickServer(), folder) as address:
        yield Cassandra(address)
        close_clients({int(address.rpartition(":")[2])})


@pytest.fixture(scope="module")
def cassandra(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The node of ``PENSTOCK_CASSANDRA_ADDRESS``, or one of our own, with a keyspace for every test here."""
    folder = tmp_path_factory.mktemp("cassandra")
    return kept_for_directory(request, "cassandra", lambda: running_cassandra(folder))


class Watcher:
    """A reader of committed records that watches a topic all the time, as any consumer would.

    Values are ``<key>:<number>``, where numbers of a key grow. It keeps when each value was first seen and how often,
    and notices a number of a key that comes before its turn.
    """

    def __init__(self, brokers: str, topic: str, partitions: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.seen: Counter = Counter()
        self.when: dict[str, float] = {}
        self.disorder: list[str] = []
        self._brokers, self._topic = brokers, topic
        self._last: dict[tuple[int, str], int] = {}
        self._more = threading.Condition()
        self._ended = threading.Event()
        settings = {
            "bootstrap.servers": brokers,
            "group.id": f"watcher-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.is_set():
            messages = [one for one in self._consumer.consume(10_000, 0.02) if one.error() is None]
            if messages:
                with self._more:
                    for message in messages:
                        self._note(message.partition(), message.value().decode())
                    self._more.notify_all()

    def _note(self, partition: int, value: str) -> None:
        self.seen[value] += 1
        self.when.setdefault(value, time.monotonic())
        key, _, number = value.partition(":")
        if self._last.get((partition, key), -1) >= int(number):
            self.disorder.append(value)
        self._last[partition, key] = int(number)

    def wait_for(self, records: int, timeout: float = 180) -> None:
        """Returns when so many records were seen, or at the time-out."""
        with self._more:
            self._more.wait_for(lambda: self.seen.total() >= records, timeout)

    def check(self, expected: set[str], *, order: bool = True) -> None:
        """Raises with what was lost, doubled, strange or out of order, once all that is there was seen."""
        from penstock_kafka.dev import KafkaToolbox

        self.wait_for(len(expected))
        self.wait_for(len(KafkaToolbox(self._brokers).read(self._topic)))
        lost, strange = sorted(expected - set(self.seen)), sorted(set(self.seen) - expected)
        doubled = sorted(value for value, count in self.seen.items() if count > 1)
        assert (len(lost), len(doubled), len(strange)) == (0, 0, 0), (
            f"lost {len(lost)} {lost[:5]}, doubled {len(doubled)} {doubled[:5]}, strange {strange[:5]}"
        )
        assert not order or not self.disorder, f"out of order: {self.disorder[:5]}"

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(10)
        self._consumer.close()


@pytest.fixture
def watch() -> Callable[..., Watcher]:
    started: list[Watcher] = []

    def start(brokers: str, topic: str, partitions: int) -> Watcher:
        started.append(Watcher(brokers, topic, partitions))
        return started[-1]

    yield start
    for one in started:
        one.stop()


class Feed:
    """Writes values ``<key>:<number>`` into a topic; ``expected`` is all of them so far."""

    def __init__(self, kafka: Any, topic: str, keys: int = 8) -> None:
        self._kafka, self.topic, self._keys = kafka, topic, keys
        self.expected: set[str] = set()
        self._next = 0

    def add(self, records: int) -> set[str]:
        numbers = range(self._next, self._next + records)
        self._next += records
        pairs = [(f"k{number % self._keys}", number) for number in numbers]
        self._kafka.produce(self.topic, [{"key": key, "value": f"{key}:{number}"} for key, number in pairs])
        self.expected |= {f"{key}:{number}" for key, number in pairs}
        return self.expected


@pytest.fixture
def feed(kafka: Any) -> Callable[..., Feed]:
    return lambda topic, keys=8, to=None: Feed(to or kafka, topic, keys)
