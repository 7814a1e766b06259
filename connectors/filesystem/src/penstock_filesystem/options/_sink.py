"""The options of the sink: as users set them, and as the sink takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.errors import BadConfigurationError
from penstock.options import Condition, Option, OptionSet, OptionValues, common_option, when
from penstock.serialization.values import check_zone
from penstock.sink import ChangeColumns
from penstock.storage import STORAGE_OPTIONS, storage_options
from penstock_filesystem.formats import WRITE_FORMATS, WriteOptions, check_line_sep
from penstock_filesystem.options._formats import format_options
from penstock_filesystem.options._instead import NOT_WRITTEN

__all__ = ["SINK_OPTIONS", "SinkOptions"]

_CSV = (when("format", "csv"),)
_CSV_OR_JSON = (when("format", "csv", "json"),)
#: Where directories are not named by a time.
_NOT_BY_TIME = (when("bucketAssigner", "basePath", "columns"), when("partitionColumns"))
_WITH_EVERY_BATCH = (when("rollOnCheckpoint"), when("rollingPolicy", "onCheckpoint"))


def _of_format(
    name: str,
    doc: str,
    needs: tuple[Condition, ...],
    kind: Literal["string", "bool", "int"] = "string",
    default: str | None = None,
    **more: Any,
) -> Option:
    """Returns an option of one format. With another format it is ignored with a warning."""
    return Option(name, doc, kind, default, needs=needs, tolerated=True, **more)


#: The options that a user may set on the sink.
SINK_OPTIONS = OptionSet(
    (
        Option(
            "path",
            "Directory for the files: a local path, s3://bucket/prefix, abfss://container@account…, hdfs://…",
            kind="path",
            required=True,
        ),
        common_option(
            "delivery", ": nothing is visible that may come again", choices=("exactly-once",), default="exactly-once"
        ),
        *format_options("What the files are written as", WRITE_FORMATS, default="parquet"),
        Option(
            "compression",
            "Codec. parquet: zstd (default), snappy, gzip, lz4, none. orc: zstd (default), snappy, zlib, lz4, none. "
            "avro: deflate (default), none. "
            "csv, json, text: none (default), gzip, zstd. sequencefile: none (default), deflate, bzip2, snappy, lz4",
        ),
        common_option("keyColumns", ". Files keep them; a row that has a null there is refused"),
        common_option("operationColumn", ". Files keep it"),
        common_option("orderColumn", ". Files keep it; a row that has a null there is refused"),
        common_option("unavailableColumn", ". Files keep it; a new row that lacks a value is refused"),
        Option("partPrefix", "First part of every file's name", default="part"),
        Option("partSuffix", "Comes before the extension in every file's name", default=""),
        Option(
            "bucketAssigner",
            "Which subdirectory a row goes to: dateTime, basePath (no subdirectories), columns (see partitionColumns), "
            "or module:callable (called with these options, returns a BucketAssigner). The default is columns if "
            "partitionColumns is set, else dateTime for a stream and basePath for df.write. With dateTime, spark.read "
            "needs recursiveFileLookup=true",
        ),
        Option(
            "bucketPattern",
            "dateTime: directory name, in the letters of dateFormat, with / for levels",
            default="yyyy-MM-dd--HH",
            excludes=_NOT_BY_TIME,
        ),
        Option(
            "bucketTimeZone",
            "dateTime: IANA time zone in which the pattern is filled in",
            default="UTC",
            check=check_zone,
            excludes=_NOT_BY_TIME,
        ),
        Option(
            "bucketColumn",
            "dateTime: the timestamp or date column that decides; default: the time at which the row is written",
            kind="column",
            excludes=_NOT_BY_TIME,
        ),
        Option(
            "partitionColumns",
            "columns: comma-separated list; directories are col=value as Hive's and Spark's, files leave them out",
            kind="columns",
            required_with=(when("bucketAssigner", "columns"),),
            excludes=(when("bucketAssigner", "dateTime", "basePath"),),
            aliases=("partitionBy",),
        ),
        Option(
            "rollingPolicy",
            "When an open part is closed and published: default (size, age, inactivity), onCheckpoint (with every "
            "batch), or module:callable (called with these options, returns a RollingPolicy)",
            default="default",
        ),
        Option("maxPartSize", "Size at which a part is full", kind="bytes", default="1gb", minimum=1),
        Option(
            "rolloverInterval",
            "A part is published once its first row is this old",
            kind="duration",
            default="15 minutes",
            minimum=0,
            excludes=_WITH_EVERY_BATCH,
            only_in="stream",
            tolerated=True,
        ),
        Option(
            "inactivityInterval",
            "A part is published once its last row is this old",
            kind="duration",
            default="5 minutes",
            minimum=0,
            excludes=_WITH_EVERY_BATCH,
            only_in="stream",
            tolerated=True,
        ),
        Option(
            "rollOnCheckpoint",
            "Publish everything with every batch, as rollingPolicy=onCheckpoint: rows are visible soonest, files small",
            kind="bool",
            default="false",
            needs=(when("rollingPolicy", "default"),),
        ),
        Option(
            "maxOpenBuckets",
            "Buckets that a task writes to at once; beyond it the least recently used one is set aside. On S3, "
            "Azure and Google's store each is spooled to a local temporary file of up to maxPartSize",
            kind="int",
            default="100",
            minimum=1,
        ),
        Option(
            "maxOpenChunks",
            "Hidden pieces that an open part may consist of before they are merged (fewer: less state, more rewriting)",
            kind="int",
            default="32",
            minimum=2,
            excludes=_WITH_EVERY_BATCH,
            only_in="stream",
            tolerated=True,
        ),
        _of_format(
            "rowGroupSize",
            "Rows in a row group at most",
            (when("format", "parquet"),),
            "int",
            "1048576",
            minimum=1,
        ),
        _of_format("header", "Column names in the first line of every file", _CSV, "bool", "false"),
        _of_format("sep", "Separator", _CSV, default=",", aliases=("delimiter",)),
        _of_format("quote", "Quoting character", _CSV, default='"'),
        _of_format(
            "escape",
            "Escapes quotes in a quoted value; if equal to quote, a quote is written as two",
            _CSV,
            default="\\",
        ),
        _of_format("quoteAll", "Quote every value, but null only with a nullValue", _CSV, "bool", "false"),
        _of_format("nullValue", "What null is written as", _CSV, default=""),
        _of_format("emptyValue", "What an empty string is written as", _CSV, default='""'),
        _of_format(
            "timestampFormat",
            "Pattern of timestamps, written in UTC, in the source's letters; default: ISO 8601 with microseconds",
            _CSV_OR_JSON,
        ),
        _of_format(
            "timestampNTZFormat",
            "Pattern of timestamp_ntz, in those letters; default: ISO 8601 with microseconds",
            _CSV_OR_JSON,
        ),
        _of_format("dateFormat", "Pattern of dates, in the source's letters; default: yyyy-MM-dd", _CSV_OR_JSON),
        _of_format("ignoreNullFields", "Leave null fields out", (when("format", "json"),), "bool", "true"),
        _of_format(
            "lineSep",
            "What ends a line",
            (when("format", "csv", "json", "text"),),
            default="\n",
            check=check_line_sep,
        ),
        *STORAGE_OPTIONS,
    ),
    instead=NOT_WRITTEN,
)


@dataclass(frozen=True)
class SinkOptions:
    """The options of the sink: checked and typed. ``format`` is how the contents of files are written.

    ``values`` are the options as they were given, for bucket assigners and rolling policies of the user's own.
    """

    path: str
    storage_options: Mapping[str, str] = field(repr=False)
    part_prefix: str
    part_suffix: str
    bucket_assigner: str
    bucket_pattern: str
    bucket_time_zone: str
    bucket_column: str | None
    partition_columns: tuple[str, ...]
    rolling_policy: str
    max_part_size: int
    rollover_interval_ms: int
    inactivity_interval_ms: int
    max_open_buckets: int
    max_open_chunks: int
    format: WriteOptions
    changes: ChangeColumns
    values: OptionValues = field(repr=False)

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Takes the options from ``values``. Raises BadConfigurationError for values that do not go together."""
        prefix, suffix = values["partPrefix"], values["partSuffix"]
        if {"/", "\0"} & {*prefix, *suffix} or prefix[:1] in ("", ".", "_"):
            raise BadConfigurationError(
                "options 'partPrefix' and 'partSuffix' hold no '/' and no NUL, and the prefix does not begin with '.' "
                "or '_' (readers skip such files)"
            )
        columns = values["partitionColumns"]
        assigner = values["bucketAssigner"] or ("columns" if columns else "dateTime")
        return cls(
            path=values["path"],
            storage_options=storage_options(values),
            part_prefix=prefix,
            part_suffix=suffix,
            bucket_assigner=assigner,
            bucket_pattern=values["bucketPattern"],
            bucket_time_zone=values["bucketTimeZone"],
            bucket_column=values["bucketColumn"],
            partition_columns=tuple(name.strip() for name in (columns or "").split(",") if name.strip()),
            rolling_policy="onCheckpoint" if values["rollOnCheckpoint"] else values["rollingPolicy"],
            max_part_size=values["maxPartSize"],
            rollover_interval_ms=values["rolloverInterval"],
            inactivity_interval_ms=values["inactivityInterval"],
            max_open_buckets=values["maxOpenBuckets"],
            max_open_chunks=values["maxOpenChunks"],
            format=WriteOptions.from_values(values),
            changes=ChangeColumns.from_values(values),
            values=values,
        )
