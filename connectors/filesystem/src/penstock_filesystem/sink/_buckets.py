"""Bucket assigners: which subdirectory a row goes to."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import OptionValues
from penstock.serialization.values import TimeWriter, checked_zone
from penstock_filesystem.sink._bucket_assigner import BucketAssigner
from penstock_filesystem.sink._extensions import load_extension
from penstock_filesystem.sink._hive import ColumnsBucketAssigner

__all__ = [
    "BasePathBucketAssigner",
    "DateTimeBucketAssigner",
    "bucket_assigner",
    "split_by_bucket",
]

NO_TIME_BUCKET = "no-time"  # rows whose event time is null; must not begin with _ or ., which readers skip


class BasePathBucketAssigner(BucketAssigner):
    """No buckets: every file lies in the base path."""

    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> str:
        """See the base class."""
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """A bucket per hour (or what the pattern says), of a column's time or of the time of writing.

    Timestamps with a time zone are shown in ``time_zone``, those without are taken as they are. Null goes to
    ``no-time``.
    """

    def __init__(self, pattern: TimeWriter, time_zone: str, column: str | None) -> None:
        self._pattern = pattern
        self._time_zone = time_zone
        self._column = column

    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> pa.Array | str:
        """See the base class."""
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
        """See the base class."""
        if self._column is None:
            return
        index = schema.get_field_index(self._column)
        if index < 0:
            raise BadConfigurationError(
                f"option 'bucketColumn': no column '{self._column}' (there are: {', '.join(schema.names)})"
            )
        kind = schema.field(index).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise BadConfigurationError(
                f"option 'bucketColumn': '{self._column}' is {kind}, not a timestamp or a date: cast it"
            )


def bucket_assigner(options: OptionValues) -> BucketAssigner:
    """The assigner that the options ask for. Raises BadConfigurationError."""
    name = options["bucketAssigner"] or ("columns" if options["partitionColumns"] else "dateTime")
    lower = name.lower()
    if options["partitionColumns"] and lower in ("datetime", "basepath"):
        raise BadConfigurationError(f"options 'partitionColumns' and bucketAssigner={name} exclude each other")
    if lower == "datetime":
        return _date_time_assigner(options)
    if lower == "basepath":
        return BasePathBucketAssigner()
    if lower == "columns":
        columns = tuple(column.strip() for column in (options["partitionColumns"] or "").split(",") if column.strip())
        if not columns:
            raise BadConfigurationError("bucketAssigner=columns needs the option 'partitionColumns'")
        return ColumnsBucketAssigner(columns)
    known = ("dateTime", "basePath", "columns")
    assigner: BucketAssigner = load_extension("bucketAssigner", name, known, options, BucketAssigner)
    return assigner


def _date_time_assigner(options: OptionValues) -> DateTimeBucketAssigner:
    zone = checked_zone("bucketTimeZone", options["bucketTimeZone"])
    pattern = TimeWriter("bucketPattern", options["bucketPattern"])
    return DateTimeBucketAssigner(pattern, zone, options["bucketColumn"])


def split_by_bucket(batch: pa.RecordBatch, buckets: pa.Array | str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of ``batch`` by bucket, in the order in which they came.

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
        if not piece or hidden:
            raise BadDataError(
                f"bucket {bucket!r}: a bucket is a relative path without empty pieces, and no piece of it begins with "
                "'.' or '_' (readers skip such directories)"
            )
    return bucket
