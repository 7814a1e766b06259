"""The options of the sink: as users set them, and as the sink takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet, OptionValues
from penstock.storage import STORAGE_OPTIONS
from penstock_filesystem.formats import WRITE_FORMATS, WriteOptions

__all__ = ["SINK_OPTIONS", "SinkOptions"]

#: The options that a user may set on the sink.
SINK_OPTIONS = OptionSet(
    (
        Option("path", "Directory for the files: a local path, s3://bucket/prefix, hdfs://…", required=True),
        Option(
            "format",
            "What the files are written as",
            kind="choice",
            default="parquet",
            choices=WRITE_FORMATS,
        ),
        Option(
            "compression",
            "Codec. parquet: zstd (default), snappy, gzip, lz4, none. avro: deflate (default), none. "
            "csv, json, text: none (default), gzip, zstd. sequencefile: none",
        ),
        Option("partPrefix", "First part of every file's name", default="part"),
        Option("partSuffix", "Comes before the extension in every file's name", default=""),
        Option(
            "bucketAssigner",
            "Which subdirectory a row goes to: dateTime, basePath (no subdirectories), columns (see partitionColumns), "
            "or module:callable (called with these options, returns a BucketAssigner). The default is columns if "
            "partitionColumns is set, else dateTime. With dateTime, spark.read needs recursiveFileLookup=true",
        ),
        Option(
            "bucketPattern",
            "dateTime: directory name, in the letters of dateFormat, with / for levels",
            default="yyyy-MM-dd--HH",
        ),
        Option("bucketTimeZone", "dateTime: IANA time zone in which the pattern is filled in", default="UTC"),
        Option(
            "bucketColumn",
            "dateTime: the timestamp or date column that decides; default: the time at which the row is written",
        ),
        Option(
            "partitionColumns",
            "columns: comma-separated list; directories are col=value as Hive's and Spark's, files leave them out",
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
        ),
        Option(
            "inactivityInterval",
            "A part is published once its last row is this old",
            kind="duration",
            default="5 minutes",
            minimum=0,
        ),
        Option(
            "rollOnCheckpoint",
            "Publish everything with every batch, as rollingPolicy=onCheckpoint: rows are visible soonest, files small",
            kind="bool",
            default="false",
        ),
        Option(
            "maxOpenBuckets",
            "Buckets that a task writes to at once; beyond it the least recently used one is set aside. For S3 each is "
            "spooled to a local temporary file of up to maxPartSize",
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
        ),
        Option("rowGroupSize", "parquet: rows in a row group at most", kind="int", default="1048576", minimum=1),
        Option("header", "csv: column names in the first line of every file", kind="bool", default="false"),
        Option("sep", "csv: separator", default=","),
        Option("quote", "csv: quoting character", default='"'),
        Option("escape", "csv: escapes quotes inside a quoted value; equal to quote: they are doubled", default="\\"),
        Option("quoteAll", "csv: quote every value", kind="bool", default="false"),
        Option("nullValue", "csv: what null is written as", default=""),
        Option("emptyValue", "csv: what an empty string is written as", default='""'),
        Option(
            "timestampFormat",
            "csv, json: pattern of timestamps, written in UTC, in the source's letters; default: ISO 8601 with "
            "microseconds",
        ),
        Option("dateFormat", "csv, json: pattern of dates, in the source's letters; default: yyyy-MM-dd"),
        Option("ignoreNullFields", "json: leave null fields out", kind="bool", default="true"),
        Option("lineSep", "csv, json, text: what ends a line", default="\n"),
        *STORAGE_OPTIONS,
    )
)


@dataclass(frozen=True)
class SinkOptions:
    """The options of the sink: checked and typed. ``format`` is how the contents of files are written.

    ``values`` are the options as they were given, for bucket assigners and rolling policies of the user's own.
    """

    path: str
    storage_options: Mapping[str, str | None] = field(repr=False)
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
    values: OptionValues = field(repr=False)

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Takes the options from ``values``. Raises BadConfigurationError for values that do not go together."""
        prefix, suffix = values["partPrefix"], values["partSuffix"]
        if "/" in prefix + suffix or prefix[:1] in ("", ".", "_"):
            raise BadConfigurationError(
                "options 'partPrefix' and 'partSuffix' hold no '/', and the prefix does not begin with '.' or '_' "
                "(readers skip such files)"
            )
        columns = values["partitionColumns"]
        assigner = values["bucketAssigner"] or ("columns" if columns else "dateTime")
        if columns and assigner.lower() in ("datetime", "basepath"):
            raise BadConfigurationError(f"options 'partitionColumns' and bucketAssigner={assigner} exclude each other")
        policy = values["rollingPolicy"]
        return cls(
            path=values["path"],
            storage_options=values.with_prefix("s3."),
            part_prefix=prefix,
            part_suffix=suffix,
            bucket_assigner=assigner,
            bucket_pattern=values["bucketPattern"],
            bucket_time_zone=values["bucketTimeZone"],
            bucket_column=values["bucketColumn"],
            partition_columns=tuple(name.strip() for name in (columns or "").split(",") if name.strip()),
            rolling_policy="onCheckpoint" if values["rollOnCheckpoint"] and policy == "default" else policy,
            max_part_size=values["maxPartSize"],
            rollover_interval_ms=values["rolloverInterval"],
            inactivity_interval_ms=values["inactivityInterval"],
            max_open_buckets=values["maxOpenBuckets"],
            max_open_chunks=values["maxOpenChunks"],
            format=WriteOptions.from_values(values),
            values=values,
        )
