"""The Spark data source of a connector."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from penstock._letters import create_sink
from penstock._plugins import find_connector
from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError
from penstock.options import Mode, OptionSet, OptionValues, complete_options
from penstock.retry import RetryPolicy
from penstock.source import Source, SupportsFilterPushDown
from penstock.spark._ends import ENDS_OPTION
from penstock.spark._gc_tuning import freeze_modules
from penstock.spark._locations import LOCAL, Home
from penstock.spark._read import BatchReader, FilteringBatchReader, StreamReader

if TYPE_CHECKING:
    from penstock.sink import Sink

__all__ = ["PenstockDataSource", "data_source_of"]

#: Options that Spark itself adds to the connector's.
ENGINE_OPTIONS = ("checkpointLocation", "queryName", "outputMode", ENDS_OPTION)
#: For a person who has made a table: Spark creates it without the options, and reads it without any.
_OF_TABLES = "a table of Spark's catalog keeps none of a source in Python:"
_OF_STATEMENTS = "use a temporary view, or write WITH (name = 'value', …) behind the table in SQL"


class PenstockDataSource(DataSource):
    """Base of the classes that :func:`data_source_of` makes, one for each connector.

    Spark builds instances on the driver, in worker processes, and pickles them; they hold options only.
    """

    connector_name: ClassVar[str] = ""
    parallelism: ClassVar[int] = 1
    accumulator: ClassVar[Any] = None
    filters_allowed: ClassVar[bool] = False
    session: ClassVar[str] = ""
    home: ClassVar[Home] = LOCAL
    counts_folder: ClassVar[str] = ""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = dict(options)
        self._schema_is_given = True
        self._schema_is_inferred = False

    @classmethod
    def name(cls) -> str:
        """Returns what goes into ``.format(...)``."""
        return f"penstock.{cls.connector_name}"

    def _load(self) -> Connector:
        freeze_modules()
        return find_connector(self.connector_name).load()

    def _connector(self, capability: Capability) -> Connector:
        connector = self._load()
        if capability not in connector.capabilities:
            raise BadConfigurationError(f"{self.name()} can't do {capability.value.replace('-', ' ')}")
        return connector

    def _parse(
        self,
        declared: OptionSet | None,
        side: str,
        mode: Mode | None,
        ignore: Sequence[str] = ENGINE_OPTIONS,
        defaults: Mapping[str, tuple[str, Sequence[str]]] = MappingProxyType({}),
    ) -> OptionValues:
        if declared is None:
            raise BadConfigurationError(f"{self.name()} has no {side}")
        if self._options.get("provider", "").lower() == self.name():
            advice = f"use CREATE TEMPORARY VIEW … USING {self.name()} OPTIONS (…), in each session"
            raise BadConfigurationError(f"{self.name()} can't be a table with these options: {_OF_TABLES} {advice}")
        options = complete_options(self.home.locate_options(self._options, declared), defaults)
        try:
            return declared.parse(options, owner=f"{side} {self.name()}", ignore=ignore, mode=mode)
        except BadConfigurationError as error:
            if self._options:
                raise
            raise BadConfigurationError(f"{error}. No options were given; {_OF_TABLES} {_OF_STATEMENTS}") from None

    def _source(self, capability: Capability, mode: Mode) -> tuple[Source[Any, Any], OptionValues]:
        connector = self._connector(capability)
        options = self._parse(connector.source_options, "source", mode)
        if self._schema_is_given:
            options.warn_of_given_schema(f"source {self.name()}")
        return connector.create_source(options), options

    def schema(self) -> StructType:
        """Called by Spark if the user gave no schema."""
        connector = self._load()
        # Spark asks for the schema before it says whether the rows are read as a batch or as a stream.
        options = self._parse(connector.source_options, "source", None)
        source = connector.create_source(options)
        fixed = source.fixed_schema()
        self._schema_is_given = False
        self._schema_is_inferred = fixed is None and not source.remembers_schema
        retry = RetryPolicy.from_values(options)
        return from_arrow_schema(fixed if fixed is not None else retry.call(source.infer_schema, "asking for a schema"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Batch reading."""
        (source, options), arrow = self._source(Capability.BATCH_READ, "batch"), _arrow_schema(schema)
        retry = _check_schema(source, arrow, options)
        takes_filters = isinstance(source, SupportsFilterPushDown) and self.filters_allowed
        reader = FilteringBatchReader if takes_filters else BatchReader
        return reader(source, arrow, self.parallelism, self.accumulator, retry)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Stream reading."""
        if self._schema_is_inferred:
            raise BadConfigurationError(
                f"{self.name()}: a stream needs a schema of its own, give one with .schema(...): an inferred one could "
                "be another after a restart"
            )
        (source, options), arrow = self._source(Capability.STREAM_READ, "stream"), _arrow_schema(schema)
        retry = _check_schema(source, arrow, options)
        return StreamReader(source, arrow, self.parallelism, self.accumulator, options, self.name(), retry)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Batch writing."""
        # Every query starts processes of its own; those that only read need nothing of this.
        from penstock.sink import TwoPhaseCommitSink
        from penstock.spark._foreach_batch import IN_BATCH_OPTIONS, RunningBatch
        from penstock.spark._write import AtLeastOnceWriter, BatchWriter, InBatchWriter, MemberWriter

        batch = RunningBatch.of(self._options, f"sink {self.name()}")
        connector = self._connector(Capability.BATCH_WRITE if batch is None else Capability.STREAM_WRITE)
        if overwrite:
            raise BadConfigurationError(f"{self.name()} can't overwrite: use .mode('append'), or an empty target")
        arrow = _arrow_schema(schema)
        defaults = connector.batch_write_defaults if batch is None else {}
        options = self._parse(connector.sink_options, "sink", "batch", IN_BATCH_OPTIONS, defaults)
        sink = create_sink(connector, options, arrow)
        retry = _check_schema(sink, arrow, options)
        if not isinstance(sink, TwoPhaseCommitSink):
            if batch is not None:
                raise BadConfigurationError(
                    f"{self.name()} delivers at least once with these options, and commits nothing: use df.write "
                    "without 'batchId' and 'sinkName', or set delivery to exactly-once"
                )
            return AtLeastOnceWriter(sink, arrow, self.accumulator, retry)
        if batch is not None:
            batch = replace(batch, checkpoint=self.home.locate(batch.checkpoint))
            if batch.member:
                return MemberWriter(sink, arrow, self.connector_name, options, batch, self.accumulator, retry)
            return InBatchWriter(
                sink,
                arrow,
                self.connector_name,
                options,
                batch,
                self.accumulator,
                self.session,
                retry,
                self.counts_folder,
            )
        return BatchWriter(sink, arrow, self.connector_name, options, self.accumulator, retry)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Stream writing."""
        from penstock.sink import SupportsCompleteMode, TwoPhaseCommitSink
        from penstock.spark._pipeline_flows import FlowCheckpoint
        from penstock.spark._write import AtLeastOnceWriter, StreamWriter

        connector = self._connector(Capability.STREAM_WRITE)
        arrow = _arrow_schema(schema)
        options = self._parse(connector.sink_options, "sink", "stream")
        sink = create_sink(connector, options, arrow)
        if overwrite and not isinstance(sink, SupportsCompleteMode):
            raise BadConfigurationError(f"{self.name()} can't take complete results: use .outputMode('append')")
        retry = _check_schema(sink, arrow, options)
        given = {name.lower(): text for name, text in self._options.items()}
        checkpoint = self.home.locate(given["checkpointlocation"]) if given.get("checkpointlocation") else None
        flow = FlowCheckpoint.of(checkpoint or "")
        if flow is not None and not isinstance(sink, SupportsCompleteMode):
            flow.check_refresh(f"sink {self.name()}", options, retry)
        if not isinstance(sink, TwoPhaseCommitSink):
            return AtLeastOnceWriter(sink, arrow, self.accumulator, retry)
        return StreamWriter(
            sink,
            arrow,
            self.connector_name,
            options,
            checkpoint,
            self.accumulator,
            self.session,
            retry,
            # A run of a pipeline ends when it has read what was there.
            ends=flow is not None or given.get(ENDS_OPTION.lower()) == "true",
            counts_folder=self.counts_folder,
        )


def _check_schema(end: Source[Any, Any] | Sink, schema: pa.Schema, options: OptionValues) -> RetryPolicy:
    retry = RetryPolicy.from_values(options)
    retry.call(lambda: end.validate_schema(schema), "checking the schema")
    return retry


def _arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")


def data_source_of(
    connector_name: str,
    *,
    parallelism: int,
    accumulator: Any,
    filters_allowed: bool = False,
    session: str = "",
    home: Home = LOCAL,
    counts_folder: str = "",
) -> type[PenstockDataSource]:
    """Returns a data source class for one connector. Being made at run time, it is pickled by value, attributes
    included.

    ``session`` names the session whose processes belong together, ``home`` is where its paths without a scheme are.
    ``counts_folder`` is where processes on the driver's machine add their counters, while the folder is there.
    """
    attributes = {
        "connector_name": connector_name,
        "parallelism": parallelism,
        "accumulator": accumulator,
        "filters_allowed": filters_allowed,
        "session": session,
        "home": home,
        "counts_folder": counts_folder,
    }
    return type(f"Penstock{connector_name.title()}", (PenstockDataSource,), attributes)
