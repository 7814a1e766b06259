"""``penstock.register(spark)``: every installed connector becomes a format of the session."""

from __future__ import annotations

import os
import uuid
import warnings
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from penstock._plugins import installed_connectors
from penstock.errors import BadConfigurationError
from penstock.spark._damaged_checkpoints import looking_first, noting_options
from penstock.spark._data_source import data_source_of
from penstock.spark._driver_counts import new_counts_folder
from penstock.spark._ends import publish_at_ends, wrap_method
from penstock.spark._foreach_batch import telling_the_run
from penstock.spark._last_words import hush_cut_updates, print_last_words
from penstock.spark._listener import PublishingListener
from penstock.spark._locations import LOCAL, Home
from penstock.spark._metrics import CountsParam
from penstock.spark._redaction import hide_secrets
from penstock.spark._statements import refuse_dropped_clauses
from penstock.spark._workers import classic_context, run_this_python
from penstock.spark._writers import note_batch_writers, noting, noting_calls, with_noted

__all__ = ["Registration", "counts_folder", "register", "task_counts"]


#: By Spark context, and by connector.
_accumulators: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
#: By Spark context: where processes on the driver's machine add their counters.
_counts_folders: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


@dataclass
class Registration:
    """What :func:`register` did: formats that can be used, problems by connector name, counters by format.

    ``home`` is where the session's paths without a scheme are.
    """

    formats: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    accumulators: dict[str, Any] = field(default_factory=dict, repr=False)
    home: Home = field(default=LOCAL, repr=False)

    def metrics(self) -> dict[str, dict[str, int]]:
        """Counters of all finished tasks since the first registration, by format."""
        return {name: CountsParam.totals(accumulator.value) for name, accumulator in self.accumulators.items()}


def register(spark: SparkSession) -> Registration:
    """Registers every installed connector with ``spark`` and returns what it did. Safe to call again.

    Secret options are hidden in plans that the session shows from now on. An exception that nothing catches ends with
    a line of ours, after Spark's traces, if it carries one of our errors (:func:`penstock.explain`).
    A connector that does not fit this core, or fails on import, is reported as a warning and left out. On a local
    master whose workers would run another Python (``PYSPARK_PYTHON`` unset), they are made to run this one.
    """
    print_last_words()
    context = classic_context(spark)
    home = Home.of(context, spark.conf.get("spark.hadoop.fs.defaultFS", "") or "")
    done = Registration(home=home)
    run_this_python(context)
    session = uuid.uuid4().hex
    loaded = []
    for connector in installed_connectors():
        try:
            loaded.append(connector.load())
        except BadConfigurationError as error:
            done.problems[connector.name] = str(error)
            warnings.warn(str(error), stacklevel=2)
            continue
        accumulator = _accumulator(context, connector.name)
        parallelism = context.defaultParallelism if context is not None else os.cpu_count() or 1
        source = data_source_of(
            connector.name,
            parallelism=parallelism,
            accumulator=accumulator,
            filters_allowed=_filters_allowed(spark),
            session=session,
            home=home,
            counts_folder=counts_folder(context),
        )
        spark.dataSource.register(source)
        done.formats.append(connector.format)
        if accumulator is not None:
            done.accumulators[connector.format] = accumulator
    hide_secrets(spark, loaded, over_connect=context is None)
    if not done.formats and not done.problems:
        warnings.warn("no penstock connector is installed: pip install penstock-filesystem", stacklevel=2)
    if context is not None:
        hush_cut_updates(context)
        from pyspark.sql import DataFrameWriter, DataFrameWriterV2
        from pyspark.sql.streaming import DataStreamWriter

        wrap_method(DataFrameWriter, "format", lambda method: noting("format")(telling_the_run(method)))
        note_batch_writers(DataFrameWriter, DataFrameWriterV2)
        refuse_dropped_clauses(SparkSession)
        noting_calls(DataStreamWriter)
        for name in ("option", "options"):
            wrap_method(DataStreamWriter, name, noting_options)
        for name in ("start", "toTable"):
            wrap_method(DataStreamWriter, name, lambda method: with_noted(looking_first(method)))
        publish_at_ends(PublishingListener.attach(spark).publish_all)
    else:
        from penstock.spark._connect_ends import set_up_connect_session
        from penstock.spark._pipeline_runs import let_runs_end

        set_up_connect_session(spark)
        let_runs_end()
    return done


def _filters_allowed(spark: SparkSession) -> bool:
    """Returns whether the session lets sources in Python take filters, now: off unless it is turned on before
    registering.
    """
    return bool(spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") == "true")


def _accumulator(context: Any, connector: str) -> Any:
    """Returns the connector's counters in this Spark application: one accumulator, however often it is registered."""
    if context is None:
        return None
    kept = _accumulators.setdefault(context, {})
    if connector not in kept:
        kept[connector] = context.accumulator({}, CountsParam())
    return kept[connector]


def task_counts(context: Any) -> dict[str, dict[str, dict[str, int]]]:
    """Returns the counters of finished tasks: by format, by streaming query, by name. Any thread of the driver."""
    kept = _accumulators.get(context, {}) if context is not None else {}
    return {f"penstock.{name}": CountsParam.by_query(accumulator.value) for name, accumulator in dict(kept).items()}


def counts_folder(context: Any) -> str:
    """Returns where processes on the driver's machine count, once the folder is made. Empty over Spark Connect."""
    return _counts_folders.setdefault(context, new_counts_folder()) if context is not None else ""
