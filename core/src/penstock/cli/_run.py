"""``penstock run``: checks the pipeline file, starts Spark, runs the query and shows it."""

from __future__ import annotations

import signal
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._causes import root_cause
from penstock._commit import Chain
from penstock._monitoring import count_open
from penstock.checkpoint import chain_of
from penstock.cli._check import check_pipeline
from penstock.cli._display import JsonReporter, LiveReporter, PlainReporter, Reporter
from penstock.cli._frames import build_frame
from penstock.cli._panel import RunView
from penstock.cli._pipeline import Pipeline
from penstock.cli._progress import batch_progress, query_state
from penstock.cli._screen import say
from penstock.cli._secrets import redactor_of
from penstock.cli._waits import collecting_waits, waits_in
from penstock.errors import BadConfigurationError, PenstockError
from penstock.storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["MetricsPlace", "RunChoices", "run"]

_POLL_SECONDS = 0.25
_LAST_PORT = 65_535
OK, FAILED, MISTAKEN = 0, 1, 2


@dataclass(frozen=True)
class MetricsPlace:
    """Where Prometheus scrapes the run."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> MetricsPlace:
        """Reads ``9464``, ``0.0.0.0:9464`` or ``[::1]:9464``. Raises BadConfigurationError for anything else."""
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or int(port) > _LAST_PORT or text.startswith(":"):
            raise BadConfigurationError(f"--metrics {text}: write a port, or HOST:PORT, such as 9464 or 0.0.0.0:9464")
        return cls(host.strip("[]") or "127.0.0.1", int(port))


@dataclass(frozen=True)
class RunChoices:
    """The command's flags. ``display`` is ``live``, ``plain`` or ``json``."""

    display: str = "live"
    check_only: bool = False
    finish: bool = True
    verbose: bool = False
    metrics: MetricsPlace | None = None


def run(path: Path, choices: RunChoices) -> int:
    """The command. Returns the exit code: 0, 1 (failed), 2 (a mistake in the file), 130 or 143 (stopped)."""
    try:
        pipeline, mistakes = check_pipeline(path)
    except (OSError, UnicodeDecodeError) as error:
        say(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}", error=True)
        return MISTAKEN
    for mistake in mistakes:
        say(f"{path}:{mistake}", error=True)
    if pipeline is None or not all(mistake.is_warning for mistake in mistakes):
        return MISTAKEN
    if choices.check_only:
        say(f"{path}: no mistakes found ({' → '.join(_flow(pipeline))})")
        return OK
    view = RunView(pipeline.name, _flow(pipeline))
    with collecting_waits() as waits, _reporter(choices.display, view) as reporter:
        return _Run(pipeline, choices, reporter, waits).run()


def _reporter(display: str, view: RunView) -> Reporter:
    if display == "json":
        return JsonReporter(view)
    return LiveReporter(view) if display == "live" else PlainReporter(view)


def _flow(pipeline: Pipeline) -> tuple[str, ...]:
    sources = " + ".join(_place(source.format, source.options) for source in pipeline.sources)
    middle = ["SQL"] if pipeline.sql else [f"{pipeline.python.function}()"] if pipeline.python else []
    flow = (sources, *middle, _place(pipeline.sink.format, pipeline.sink.options))
    # A format of others takes a path with a password in it.
    return tuple(map(redactor_of(pipeline), flow))


def _place(name: str, options: Mapping[str, str]) -> str:
    """Returns a format and where it points to: the path's last piece."""
    path = next((text for option, text in options.items() if option.lower() == "path"), "")
    last = path.rstrip("/").rpartition("/")[2]
    return f"{name} {last}".strip()


class _Stopped(Exception):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class _Run:
    """One run from the start of Spark to its end."""

    def __init__(self, pipeline: Pipeline, choices: RunChoices, reporter: Reporter, waits: Path) -> None:
        self._pipeline = pipeline
        self._choices = choices
        self._reporter = reporter
        self._waits = waits
        self._redact = redactor_of(pipeline)
        self._signal: int | None = None
        self._metrics: Callable[[], dict[str, dict[str, int]]] = dict
        self._commit_counts: Callable[[], dict[str, int]] = dict
        self._seen = -1

    def run(self) -> int:
        """Runs to the end; never raises for what a user can bring about."""
        spark: SparkSession | None = None
        try:
            self._take_signals(at_once=True)
            spark = self._start()
            self._take_signals(at_once=False)
            self._stop_if_asked()
            self._follow(self._query(spark))
            self._finish()
        except _Stopped as stopped:
            self._reporter.end("stopped")
            return stopped.exit_code
        except KeyboardInterrupt:  # while Spark starts, its own handler is in place for a moment
            self._reporter.end("stopped")
            return 128 + signal.SIGINT
        except Exception as error:
            text = self._redact(root_cause(error))
            self._reporter.end("failed", text)
            if self._choices.verbose:
                say(self._redact("".join(traceback.format_exception(error))), error=True, lines=True)
            say(f"penstock: {text}", error=True, lines=True)
            return MISTAKEN if isinstance(error, BadConfigurationError) else FAILED
        finally:
            if spark is not None:
                spark.stop()
        self._reporter.end("finished")
        return OK

    def _take_signals(self, *, at_once: bool) -> None:
        """While Spark starts a signal ends the process's work at once; later the query is stopped between two polls."""

        def handle(number: int, _: object) -> None:
            if at_once or self._signal is not None:
                raise _Stopped(number)
            self._signal = number

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handle)

    def _stop_if_asked(self, query: StreamingQuery | None = None) -> None:
        if self._signal is not None:
            if query is not None:
                self._reporter.state("stopping")
                query.stop()
                self._report(query)
            raise _Stopped(self._signal)

    def _start(self) -> SparkSession:
        from penstock.cli._session import start_session
        from penstock.spark import SessionMetrics, register

        relay = None if self._choices.verbose else lambda text: self._reporter.line(self._redact(text))
        spark = start_session(self._pipeline.name, self._pipeline.spark, relay)
        with warnings.catch_warnings():
            # Connectors that this pipeline uses were checked; of broken others `penstock list` and `doctor` speak.
            warnings.simplefilter("ignore")
            registration = register(spark)
        self._metrics = registration.metrics
        session = SessionMetrics.of(spark, storage_options=self._pipeline.sink.options)
        self._commit_counts = session.commit_counts
        if self._choices.metrics is not None:
            server = session.serve(self._choices.metrics.host, self._choices.metrics.port)
            self._reporter.line(f"metrics at {server.address}")
        checkpoint = registration.home.locate(self._pipeline.checkpoint)
        self._pipeline = replace(self._pipeline, checkpoint=checkpoint)
        return spark

    def _query(self, spark: SparkSession) -> StreamingQuery:
        self._reporter.state("planning")
        pipeline = self._pipeline
        frame = build_frame(spark, pipeline)
        writer = frame.writeStream.format(pipeline.sink.format).outputMode(pipeline.mode).queryName(pipeline.name)
        writer = writer.options(**pipeline.sink.options).option("checkpointLocation", pipeline.checkpoint)
        if pipeline.trigger.available_now:
            writer = writer.trigger(availableNow=True)
        elif pipeline.trigger.processing_time is not None:
            writer = writer.trigger(processingTime=pipeline.trigger.processing_time)
        return writer.start()

    def _follow(self, query: StreamingQuery) -> None:
        """Polls until the query ends. Raises what it failed with."""
        while query.isActive:
            self._stop_if_asked(query)
            self._report(query)
            self._reporter.state(query_state(query.status["message"]))
            self._reporter.waits([self._redact(one) for one in waits_in(self._waits)])
            time.sleep(_POLL_SECONDS)
        self._reporter.waits(())
        self._report(query)
        failure = query.exception()
        if failure is not None:
            raise failure

    def _report(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or last["batchId"] <= self._seen:
            return
        # Asking for all of them is dear: only if batches ended between two polls.
        missed = last["batchId"] > self._seen + 1
        for progress in query.recentProgress if missed else [last]:
            # While a query is idle, Spark reports the batch to come, which has added nothing.
            if progress["batchId"] > self._seen and "addBatch" in progress["durationMs"]:
                self._seen = int(progress["batchId"])
                commits, pending = self._decisions()
                self._reporter.batch(batch_progress(progress, commits, self._counters(), pending))

    def _counters(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for counts in (*self._metrics().values(), self._commit_counts()):
            for name, amount in counts.items():
                total[name] = total.get(name, 0) + amount
        return total

    def _decisions(self) -> tuple[int, dict[str, int]]:
        """Returns how many decisions were carried out since the checkpoint began, and what is open.

        For other sinks these are the batches committed in this run, and nothing.
        """
        if not self._pipeline.sink.format.startswith("penstock."):
            return self._reporter.view.batches + 1, {}
        try:
            chain = _chain(self._pipeline)
            head = chain.head()
            return head.link.batch + (1 if head.pending is None else 0), count_open(chain, head)
        except (OSError, PenstockError):
            return self._reporter.view.commits, {}  # a display must not end what it shows

    def _finish(self) -> None:
        """Publishes what an ended run has left open, so that everything it read can be seen."""
        pipeline = self._pipeline
        if not (
            self._choices.finish and pipeline.trigger.available_now and pipeline.sink.format.startswith("penstock.")
        ):
            return
        from penstock.checkpoint import finish

        self._reporter.state("publishing what is open")
        try:
            finish(pipeline.checkpoint, pipeline.sink.options)
        except BadConfigurationError:
            if self._reporter.view.batches:
                raise
            return  # nothing was ever written with this checkpoint
        self._reporter.view.commits, _ = self._decisions()


def _chain(pipeline: Pipeline) -> Chain:
    storage, path = open_storage(pipeline.checkpoint, pipeline.sink.options)
    return chain_of(storage, path)
