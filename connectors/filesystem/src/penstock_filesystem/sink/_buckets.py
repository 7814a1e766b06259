"""Buckets: which subdirectory a row goes to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.ddl import shown_type
from penstock.serialization.values import TimeWriter, is_plain
from penstock_filesystem.formats import directory_values, escape_path_name
from penstock_filesystem.options import SinkOptions
from penstock_filesystem.sink._extensions import load_extension

__all__ = ["BucketAssigner", "create_bucket_assigner", "split_by_bucket"]

NO_TIME_BUCKET = "no-time"  # rows whose event time is null; must not begin with _ or ., which readers skip


class BucketAssigner(ABC):
    """Chooses the bucket of each row: a relative path, ``""`` for the base path itself.

    Users may write their own (option ``bucketAssigner``). Pickled to the tasks: holds configuration only.
    """

    @abstractmethod
    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> pa.Array | str:
        """Returns a string per row, or a plain string if all rows go to one bucket. ``now_ms``: the time of writing."""

    def columns_left_out(self) -> tuple[str, ...]:
        """Returns columns that the bucket's name holds, and that the files therefore leave out."""
        return ()

    def validate(self, schema: pa.Schema) -> None:  # noqa: B027 - nothing to check is a fine default
        """Raises BadConfigurationError if rows of ``schema`` can't be assigned."""


class BasePathBucketAssigner(BucketAssigner):
    """Puts every file into the base path."""

    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> str:
        """Returns the base path for all rows."""
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Makes a bucket per hour (or what the pattern says), by a column's time or by the time of writing.

    Timestamps with a time zone are shown in ``time_zone``, those without are taken as they are. Null goes to
    ``no-time``.
    """

    def __init__(self, pattern: TimeWriter, time_zone: str, column: str | None) -> None:
        self._pattern = pattern
        self._time_zone = time_zone
        self._column = column

    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> pa.Array | str:
        """Formats the time of each row."""
        if self._column is None:
            now = pa.array([now_ms], pa.timestamp("ms", self._time_zone))
            return str(self._pattern.write(now)[0].as_py())
        times = batch.column(batch.schema.get_field_index(self._column))
        zone = self._time_zone if getattr(times.type, "tz", None) else None
        floored = pc.floor_temporal(times.cast(pa.timestamp("us", zone)), unit=self._pattern.floor)
        # Few buckets, many rows: only the distinct ones are formatted.
        encoded = floored.dictionary_encode()
        names = self._pattern.write(encoded.dictionary)
        return pc.fill_null(names.take(encoded.indices), NO_TIME_BUCKET)

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if the column is missing, or is no time."""
        if self._column is None:
            return
        index = schema.get_field_index(self._column)
        if index < 0:
            raise BadConfigurationError(
                f"option 'bucketColumn': no column '{self._column}' (there are: {', '.join(schema.names)})"
            )
        type_ = schema.field(index).type
        if not (pa.types.is_timestamp(type_) or pa.types.is_date(type_)):
            raise BadConfigurationError(
                f"option 'bucketColumn': '{self._column}' is {shown_type(type_)}, not a timestamp or a date: cast it"
            )


class ColumnsBucketAssigner(BucketAssigner):
    """Makes a directory level per column, ``column=value``, as Hive and Spark name them.

    The files leave the columns out, as with Spark's ``partitionBy``. Null and the empty string go to
    ``__HIVE_DEFAULT_PARTITION__``; timestamps are written in UTC.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns

    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> pa.Array:
        """Joins the levels of each row."""
        levels = [self._level(name, batch.column(batch.schema.get_field_index(name))) for name in self._columns]
        return levels[0] if len(levels) == 1 else pc.binary_join_element_wise(*levels, "/")

    def _level(self, name: str, values: pa.Array) -> pa.Array:
        if pa.types.is_timestamp(values.type) and values.type.tz:
            values = values.cast(pa.timestamp(values.type.unit))
        encoded = values.dictionary_encode(null_encoding="encode")
        prefix = escape_path_name(name)
        # In Python for the distinct values only: there are as many as directories.
        names = pa.array([f"{prefix}={value}" for value in directory_values(encoded.dictionary)], pa.string())
        return names.take(encoded.indices)

    def columns_left_out(self) -> tuple[str, ...]:
        """Returns the columns that make the directories."""
        return self._columns

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for missing and nested columns, and if no column is left for the files."""
        for name in self._columns:
            index = schema.get_field_index(name)
            if index < 0:
                raise BadConfigurationError(
                    f"option 'partitionColumns': no column '{name}' (there are: {', '.join(schema.names)})"
                )
            if name.startswith("."):
                raise BadConfigurationError(
                    f"option 'partitionColumns': readers skip directories that begin with '.': rename '{name}'"
                )
            type_ = schema.field(index).type
            if not (is_plain(type_) or pa.types.is_time(type_) or pa.types.is_null(type_)):
                raise BadConfigurationError(
                    f"option 'partitionColumns': '{name}' is {shown_type(type_)}: cast it to string"
                )
        if set(self._columns) >= set(schema.names):
            raise BadConfigurationError("option 'partitionColumns' names every column: nothing is left for the files")


def create_bucket_assigner(options: SinkOptions) -> BucketAssigner:
    """Creates the assigner that the options ask for. Raises BadConfigurationError."""
    name = options.bucket_assigner
    if name.lower() == "datetime":
        pattern = TimeWriter("bucketPattern", options.bucket_pattern)
        _check_pattern(options.bucket_pattern, pattern)
        return DateTimeBucketAssigner(pattern, options.bucket_time_zone, options.bucket_column)
    if name.lower() == "basepath":
        return BasePathBucketAssigner()
    if name.lower() == "columns":
        if not options.partition_columns:
            raise BadConfigurationError("bucketAssigner=columns needs the option 'partitionColumns'")
        return ColumnsBucketAssigner(options.partition_columns)
    known = ("dateTime", "basePath", "columns")
    assigner: BucketAssigner = load_extension("bucketAssigner", name, known, options.values, BucketAssigner)
    return assigner


def _check_pattern(text: str, pattern: TimeWriter) -> None:
    """Raises BadConfigurationError for a pattern whose directories are refused, whatever the time."""
    try:
        _checked(str(pattern.write(pa.array([0], pa.timestamp("ms", "UTC")))[0].as_py()))
    except BadDataError as error:
        raise BadConfigurationError(f"option 'bucketPattern', '{text}': {error.args[0]}") from None


def split_by_bucket(batch: pa.RecordBatch, buckets: pa.Array | str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields the rows of ``batch`` by bucket, in the order in which they came.

    The pieces are copies, not slices: a few rows of a rare bucket must not keep the whole batch in memory.
    """
    if isinstance(buckets, str):
        yield _checked(buckets), batch
        return
    encoded = buckets.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1 and not buckets.null_count:
        yield _checked(names[0]), batch
        return
    if buckets.null_count:
        raise BadDataError("the bucket assigner returned null for a row: it must name a bucket for every row")
    order = pc.sort_indices(encoded.indices)
    counts = {item["values"].as_py(): item["counts"].as_py() for item in pc.value_counts(encoded.indices)}
    start = 0
    for code, name in enumerate(names):
        yield _checked(name), batch.take(order.slice(start, counts[code]))
        start += counts[code]


def _checked(bucket: str) -> str:
    """Refuses names that leave the base path, or that readers would skip as hidden."""
    for piece in bucket.split("/") if bucket else ():
        hidden = piece.startswith(".") or (piece.startswith("_") and "=" not in piece)
        if not piece or hidden or "\0" in piece:
            raise BadDataError(
                f"bucket {bucket!r}: a bucket is a relative path without empty pieces and NUL characters, and no piece "
                "of it begins with '.' or '_' (readers skip such directories)"
            )
    return bucket
