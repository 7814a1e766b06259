"""``penstock run``: checks the pipeline file, starts Spark, runs its queries and shows them."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._causes import explain
from penstock._monitoring import count_open
from penstock.checkpoint import LeftOpen, chain_of, home_of, left_open
from penstock.cli._before_start import check_before_start
from penstock.cli._check import check_pipeline
from penstock.cli._check_places import check_places
from penstock.cli._display import JsonReporter, LiveReporter, PlainReporter, Reporter
from penstock.cli._panel import RunView
from penstock.cli._pipeline import Pipeline
from penstock.cli._progress import batch_progress, query_state
from penstock.cli._queries import PlannedQuery, plan_queries
from penstock.cli._run_layout import check_layout
from penstock.cli._screen import say
from penstock.cli._secrets import redactor_of
from penstock.cli._signals import Stopped, Stops
from penstock.cli._waits import collecting_waits, waits_in
from penstock.error_codes import NOT_WRITABLE, PIPELINE
from penstock.errors import BadConfigurationError, PenstockError
from penstock.options import parse_port
from penstock.printable import get_logger
from penstock.storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    Queries = dict[PlannedQuery, StreamingQuery]

__all__ = ["MetricsPlace", "RunChoices", "run"]

_POLL_SECONDS = 0.25
OK, FAILED, MISTAKEN = 0, 1, 2
_OF_A_TRACE = re.compile(r"Exception in |Caused by: |\s+(?:at |\.\.\. \d+ |Suppressed: )")


@dataclass(frozen=True)
class MetricsPlace:
    """Where Prometheus scrapes the run."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> MetricsPlace:
        """Reads ``9464``, ``0.0.0.0:9464`` or ``[::1]:9464``. Raises BadConfigurationError for anything else."""
        host, _, port = text.rpartition(":")
        try:
            if text.startswith(":"):
                raise ValueError
            number = 0 if port == "0" else parse_port(port)  # 0: one that is free
        except ValueError:
            raise BadConfigurationError(
                f"--metrics {text}: write a port, or HOST:PORT, such as 9464 or 0.0.0.0:9464"
            ) from None
        return cls(host.strip("[]") or "127.0.0.1", number)


@dataclass(frozen=True)
class RunChoices:
    """The command's flags. ``display`` is ``live``, ``plain`` or ``json``."""

    display: str = "live"
    check_only: bool = False
    finish: bool = True
    verbose: bool = False
    metrics: MetricsPlace | None = None


def run(path: Path, choices: RunChoices) -> int:
    """The command. Returns the exit code: 0, 1 (failed), 2 (a mistake in the file), 129, 130 or 143 (stopped).

    Raises BadConfigurationError for a choice that has no effect on this file.
    """
    try:
        pipeline, mistakes = check_pipeline(path)
    except (OSError, UnicodeDecodeError) as error:
        say(f"{path}: can't be read: {getattr(error, 'strerror', None) or error} [{NOT_WRITABLE}]", error=True)
        return MISTAKEN
    if pipeline is not None:
        mistakes = sorted({*mistakes, *check_places(pipeline)})
    for mistake in mistakes:
        say(f"{path}:{mistake}{'' if mistake.is_warning else f' [{PIPELINE}]'}", error=True)
    if pipeline is None or not all(mistake.is_warning for mistake in mistakes):
        return MISTAKEN
    if not choices.finish and not pipeline.trigger.available_now:
        raise BadConfigurationError("--no-finish has an effect only with 'trigger: availableNow': leave it out")
    if choices.check_only:
        say(f"{path}: no mistakes found ({' → '.join(_flow(pipeline))})")
        say("Not checked without Spark and servers: SQL, topics, tables, and whether servers answer.")
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
    sinks = " + ".join(_place(sink.format, sink.options) for sink in pipeline.sinks)
    functions = [f"{view.python.function}()" for view in pipeline.views if view.python]
    middle = [*(["SQL"] if any(view.sql for view in pipeline.views) else []), *functions]
    # A format of others takes a path with a password in it.
    return tuple(map(redactor_of(pipeline), (sources, *middle, sinks)))


def _place(name: str, options: Mapping[str, str]) -> str:
    """Returns a format and where it points to: the path's last piece."""
    path = next((text for option, text in options.items() if option.lower() == "path"), "")
    last = path.rstrip("/").rpartition("/")[2]
    return f"{name} {last}".strip()


class _Run:
    """One run from the start of Spark to its end."""

    def __init__(self, pipeline: Pipeline, choices: RunChoices, reporter: Reporter, waits: Path) -> None:
        self._pipeline = pipeline
        self._choices = choices
        self._reporter = reporter
        self._waits = waits
        self._redact = redactor_of(pipeline)
        self._stops = Stops()
        self._metrics: Callable[[], dict[str, dict[str, int]]] = dict
        self._commit_counts: Callable[[], dict[str, int]] = dict
        self._seen: dict[str, int] = {}
        self._planned: list[PlannedQuery] = []
        #: By query: the decisions that were carried out before this run.
        self._earlier: dict[str, int] = {}

    def run(self) -> int:
        """Runs to the end; never raises for what a user can bring about."""
        spark: SparkSession | None = None
        try:
            self._stops.take(at_once=True)
            spark = self._start()
            self._stops.take(at_once=False)
            self._stop_if_asked()
            queries = self._start_queries(spark)
            self._follow(queries)
            self._finish(queries)
        except (Stopped, KeyboardInterrupt, Exception) as error:
            self._stops.ignore()
            code = self._stops.exit_code(error)
            if code is not None:
                self._end("stopped")
                return code
            text = self._redact(explain(error))
            self._end("failed", text)
            if self._choices.verbose:
                say(self._redact("".join(traceback.format_exception(error))), error=True, lines=True)
            say(f"penstock: {text}", error=True, lines=True)
            return MISTAKEN if isinstance(error, BadConfigurationError) else FAILED
        finally:
            self._stops.ignore()
            if spark is not None:
                with contextlib.suppress(Exception):  # its JVM may have got the signal as well
                    spark.stop()
        self._end("finished")
        return OK

    def _end(self, outcome: str, error: str = "") -> None:
        self._reporter.view.left_open = [left for planned in self._planned if (left := self._left_open(planned))]
        self._reporter.end(outcome, error)

    def _left_open(self, planned: PlannedQuery) -> LeftOpen | None:
        if not planned.decides:
            return None
        try:
            return left_open(planned.checkpoint, self._pipeline.storage_options, logs=planned.logs)
        except (OSError, PenstockError):
            return None  # what can't be reached now is found by 'penstock inspect' later

    def _stop_if_asked(self, queries: Queries | None = None) -> None:
        """While Spark starts, a signal ends the process's work at once; later queries are stopped between two polls."""
        if self._stops.asked is not None:
            if queries:
                self._reporter.state("stopping")
                self._stop(queries)
                self._publish_at_stop(queries)
            raise Stopped(self._stops.asked)

    def _stop(self, queries: Queries) -> None:
        for planned, query in queries.items():
            query.stop()
            self._report(planned, query)

    def _start(self) -> SparkSession:
        from penstock import register
        from penstock.cli._session import start_session
        from penstock.spark import SessionMetrics

        check_before_start(self._pipeline)
        relay = None if self._choices.verbose else self._show_of_jvm
        spark = start_session(self._pipeline.name, self._pipeline.spark, relay)
        with warnings.catch_warnings():
            # Connectors that this pipeline uses were checked; of broken others `penstock list` and `doctor` speak.
            warnings.simplefilter("ignore")
            registration = register(spark)
        get_logger("penstock.left_open").setLevel(logging.ERROR)  # the last lines of the run say it
        self._metrics = registration.metrics
        session = SessionMetrics.of(spark, storage_options=self._pipeline.storage_options)
        self._commit_counts = session.commit_counts
        if self._choices.metrics is not None:
            server = session.serve(self._choices.metrics.host, self._choices.metrics.port)
            self._reporter.line(f"metrics at {server.address}")
        checkpoint = registration.home.locate(self._pipeline.checkpoint)
        check_layout(self._pipeline, checkpoint)
        self._pipeline = replace(self._pipeline, checkpoint=checkpoint)
        return spark

    def _show_of_jvm(self, text: str) -> None:
        """Shows a line that the JVM printed. Thread: the relay's."""
        # A signal to a group of processes ends the JVM as well: what its threads fail with then is of no use.
        if self._stops.asked is None or not _OF_A_TRACE.match(text):
            self._reporter.line(self._redact(text))

    def _start_queries(self, spark: SparkSession) -> Queries:
        """Starts all, or none: if one can't be started, those before it are stopped."""
        self._reporter.state("planning")
        started: Queries = {}
        try:
            for planned, writer in plan_queries(spark, self._pipeline).items():
                self._planned.append(planned)
                self._earlier[planned.label] = self._carried_out(planned)[0]
                started[planned] = writer.start()
        except BaseException:
            self._stop(started)
            raise
        return started

    def _follow(self, queries: Queries) -> None:
        """Polls until all queries have ended. If one fails, stops the others and raises what it failed with."""
        running = dict(queries)
        while running:
            self._stop_if_asked(running)
            for planned, query in list(running.items()):
                is_over = not query.isActive
                self._report(planned, query)
                if is_over:
                    del running[planned]
                    if (failure := query.exception()) is not None:
                        self._stop(running)
                        raise failure
            for query in running.values():
                self._reporter.state(query_state(query.status["message"]))
                break
            self._reporter.waits([self._redact(one) for one in waits_in(self._waits)] if running else ())
            if running:
                time.sleep(_POLL_SECONDS)

    def _report(self, planned: PlannedQuery, query: StreamingQuery) -> None:
        last, seen = query.lastProgress, self._seen.get(planned.label, -1)
        if last is None or last["batchId"] <= seen:
            return
        # Asking for all of them is dear: only if batches ended between two polls.
        missed = last["batchId"] > seen + 1
        for progress in query.recentProgress if missed else [last]:
            # While a query is idle, Spark reports the batch to come, which has added nothing.
            if progress["batchId"] > self._seen.get(planned.label, -1) and "addBatch" in progress["durationMs"]:
                self._seen[planned.label] = int(progress["batchId"])
                commits, pending = self._decisions(planned)
                made = batch_progress(progress, commits, self._counters(), pending)
                self._reporter.batch(replace(made, query=planned.label, pipeline=self._pipeline.name))

    def _counters(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for counts in (*self._metrics().values(), self._commit_counts()):
            _add(total, counts)
        return total

    def _decisions(self, planned: PlannedQuery) -> tuple[int, dict[str, int]]:
        """Returns how many decisions this run has carried out, and what is open.

        For other sinks these are the batches committed in this run, and nothing.
        """
        known = self._reporter.view.commits_by_query.get(planned.label, 0)
        if not planned.decides:
            return known + 1, {}
        try:
            commits, pending = self._carried_out(planned)
        except (OSError, PenstockError):
            return known, {}  # a display must not end what it shows
        return commits - self._earlier[planned.label], pending

    def _carried_out(self, planned: PlannedQuery) -> tuple[int, dict[str, int]]:
        """Returns how many decisions were carried out since the checkpoint began, and what is open."""
        commits, pending = 0, dict[str, int]()
        if planned.decides:
            storage, path = open_storage(planned.checkpoint, self._pipeline.storage_options)
            for name in planned.logs:
                chain = chain_of(storage, home_of(path, name))
                head = chain.head()
                commits += head.link.batch + (1 if head.pending is None else 0)
                _add(pending, count_open(chain, head))
        return commits, pending

    def _finish(self, queries: Queries) -> None:
        """Publishes what an ended run has left open, so that everything it read can be seen."""
        if not (self._choices.finish and self._pipeline.trigger.available_now):
            return
        self._reporter.state("publishing what is open")
        for planned in queries:
            self._publish(planned)

    def _publish_at_stop(self, queries: Queries) -> None:
        """Publishes what a stopped run has left open. What can't be published now stays, and the last line names it."""
        for planned in queries:
            try:
                self._publish(planned)
            except (OSError, PenstockError) as error:
                self._reporter.line(self._redact(f"could not publish what is open: {error}"))

    def _publish(self, planned: PlannedQuery) -> None:
        from penstock.checkpoint import finish

        # What is written in a batch function is published by the end of the batch.
        if planned.commit is not None or not planned.decides:
            return
        try:
            finish(planned.checkpoint, planned.sinks[0].options)
        except BadConfigurationError:
            if planned.label in self._seen:
                raise
            return  # nothing was ever written with this checkpoint
        self._reporter.view.commits_by_query[planned.label], _ = self._decisions(planned)


def _add(total: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, amount in counts.items():
        total[name] = total.get(name, 0) + amount
