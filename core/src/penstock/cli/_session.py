"""A Spark session for ``penstock run``: quiet, local by default, with this Python in its workers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.options import sounds_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["start_session"]

_LOG4J = Path(__file__).with_name("log4j2.properties")
_DRIVER_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: What a JVM and Spark say at every start, whatever the log level.
_NOISE = re.compile(
    r"WARNING: Using incubator modules|Using Spark's default log4j profile|Setting default log level"
    r"|To adjust logging level use|WARNING: (A terminally deprecated|sun\.|Please consider|Use --enable|Restricted)"
)


def start_session(name: str, conf: Mapping[str, str], relay: Callable[[str], None] | None) -> SparkSession:
    """Starts Spark, or joins the one that ``spark-submit`` has started.

    ``relay`` is given each line that the JVM and the Python workers print, from a thread of its own, without the noise
    of a start; with ``None`` (verbose) they print to this process's own output, Spark's log at its default level.
    If it fails, or is interrupted, it leaves no JVM behind. Main thread: what SIGINT does stays as it is.
    """
    from pyspark import SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    if relay is not None:
        # PySpark logs what it also raises, whole trace included.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    settings = _settings(name, conf, quiet=relay is not None)
    _prepare_environment(settings)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if relay is not None else {}
    with _ending_jvm_on_failure() as launch_gateway:
        gateway = launch_gateway(_conf(settings, secrets=False), streams)
        process = getattr(gateway, "proc", None)
        if relay is not None and process is not None and process.stdout is not None:
            threading.Thread(target=_pump, args=(process.stdout, relay), name="penstock-relay", daemon=True).start()
        handler = signal.getsignal(signal.SIGINT)
        SparkContext(conf=_conf(settings, secrets=True), gateway=gateway)
        # PySpark's own handler calls the JVM, even in the middle of another call, which ends in a page of errors.
        signal.signal(signal.SIGINT, handler)
        return SparkSession.builder.getOrCreate()


@contextlib.contextmanager
def _ending_jvm_on_failure() -> Iterator[Callable[..., Any]]:
    """Yields PySpark's ``launch_gateway``; ends the JVM that it has launched if the block fails.

    The JVM would not end itself: it can't hand its port over to a process that has gone, and keeps its server.
    """
    from pyspark import java_gateway

    launched: list[subprocess.Popen[bytes]] = []
    plain: Any = java_gateway.Popen

    def noting(*args: Any, **given: Any) -> Any:
        launched.append(plain(*args, **given))
        return launched[-1]

    java_gateway.Popen = noting
    try:
        yield java_gateway.launch_gateway
    except BaseException:
        for process in launched:
            process.terminate()
        raise
    finally:
        java_gateway.Popen = plain


def _conf(settings: Mapping[str, str], *, secrets: bool) -> Any:
    """Returns a SparkConf. What the JVM is started with is on a command line that others can see: no secrets there."""
    from pyspark import SparkConf

    chosen = [(key, text) for key, text in settings.items() if secrets or not sounds_secret(key)]
    return SparkConf(loadDefaults=False).setAll(chosen)


def _settings(name: str, conf: Mapping[str, str], *, quiet: bool) -> dict[str, str]:
    """``conf`` with what suits a stream on one machine where it says nothing. A submitted job keeps its own master."""
    defaults = {"spark.app.name": name, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        defaults["spark.master"] = os.environ.get("MASTER") or "local[*]"
    settings = defaults | dict(conf)
    if settings.get("spark.master", "").startswith("local"):
        # Spark's 200 is meant for clusters: in micro-batches each shuffle partition costs a state store and a task.
        settings.setdefault("spark.sql.shuffle.partitions", str(_cores(settings["spark.master"])))
    if quiet:
        own = settings.get(_DRIVER_JAVA_OPTIONS, "")
        settings[_DRIVER_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()} {own}".strip()
    return settings


def _cores(master: str) -> int:
    match = re.match(r"local\[(\d+)", master)
    return int(match.group(1)) if match else (os.cpu_count() or 1) if master.startswith("local[") else 1


def _prepare_environment(settings: Mapping[str, str]) -> None:
    if settings.get("spark.master", "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _pump(stream: IO[bytes], relay: Callable[[str], None]) -> None:
    for line in stream:
        text = line.decode("utf-8", "replace").rstrip()
        if text and not _NOISE.search(text):
            relay(text)
