"""The plugin that ties the file source and the file sink to their names and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionSet, OptionValues
from penstock_filesystem.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

if TYPE_CHECKING:
    from penstock.dead_letters import LetterForm, LetterReturn
    from penstock.sink import TwoPhaseCommitSink
    from penstock.source import Source

__all__ = ["FileSystemConnector"]

_BY_TIME = ("bucketPattern", "bucketTimeZone", "bucketColumn")


class FileSystemConnector(Connector):
    """Text, CSV, JSON lines, Parquet, ORC, Avro, binary and sequence files."""

    summary: ClassVar[str] = "Files in directories: local disks, S3 and compatible stores"
    source_options: ClassVar[OptionSet | None] = SOURCE_OPTIONS
    sink_options: ClassVar[OptionSet | None] = SINK_OPTIONS
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.BATCH_WRITE,
            Capability.STREAM_WRITE,
            Capability.EXACTLY_ONCE,
            Capability.RESCALING,
            Capability.RESUMABLE,
            Capability.ADMISSION_CONTROL,
            Capability.DISCOVERY,
        }
    )
    target_options: ClassVar[tuple[str, ...]] = ("path",)
    #: The time at which a batch was written says nothing about it, and readers take rows at the path as they are.
    batch_write_defaults: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        "bucketAssigner": ("basePath", ("partitionColumns", "partitionBy", *_BY_TIME))
    }

    def create_source(self, options: OptionValues) -> Source[Any, Any]:
        """Creates a file source."""
        from penstock_filesystem.source import FileSystemSource

        return FileSystemSource(SourceOptions.from_values(options))

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> TwoPhaseCommitSink[Any, Any]:
        """Creates a file sink."""
        from penstock_filesystem.sink import create_sink

        return create_sink(SinkOptions.from_values(options), schema)

    def letter_form(self) -> LetterForm:
        """Returns rows with a column for each field of a letter, which are visible with every batch."""
        from penstock.dead_letters import AS_COLUMNS

        defaults = {
            **self.batch_write_defaults,
            "rollOnCheckpoint": ("true", ("rollingPolicy", "rolloverInterval", "inactivityInterval")),
        }
        return replace(AS_COLUMNS, defaults=defaults, place="path")

    def letter_source(self, options: OptionValues) -> Mapping[str, str] | None:
        """Returns the options that read what the sink has written, from the start."""
        return {"path": options["path"], "format": options["format"]}

    def letter_return(self) -> LetterReturn | None:
        """Returns a line of a text file, in a directory that the user names."""
        from penstock.dead_letters import LetterReturn

        return LetterReturn({"value": "cast(value as string)"}, "path", from_source=False, options={"format": "text"})

    def check_sink(self, options: OptionValues, schema: pa.Schema | None) -> type[TwoPhaseCommitSink[Any, Any]]:
        """Returns the file sink."""
        from penstock_filesystem.sink import check_sink

        return check_sink(SinkOptions.from_values(options), schema)

    def describe_guarantee(self) -> str:
        """Returns what this connector promises about rows."""
        return "source: every row of every file once; sink: exactly once (two-phase commit)"
