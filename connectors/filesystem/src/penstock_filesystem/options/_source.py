"""The options of the source: as users set them, and as the source takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet, OptionValues
from penstock.storage import STORAGE_OPTIONS
from penstock_filesystem.formats import READ_FORMATS, ReadOptions

__all__ = ["SOURCE_OPTIONS", "SourceOptions"]

_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")

#: The options that a user may set on the source.
SOURCE_OPTIONS = OptionSet(
    (
        Option("path", "Directory, file or glob to read; given by load(...)"),
        Option("paths", "Several of them, as a JSON list of texts"),
        Option("format", "What the files hold", kind="choice", choices=READ_FORMATS, required=True),
        Option("maxFilesPerTrigger", "Most files in a micro-batch", kind="int", default="10000", minimum=1),
        Option("maxBytesPerTrigger", "Bytes after which a micro-batch takes no more splits", kind="bytes", minimum=1),
        Option("pathGlobFilter", "Only files whose name matches this glob"),
        Option("recursiveFileLookup", "Whether to look into nested directories", kind="bool", default="true"),
        Option(
            "discoveryInterval",
            "Pause between two listings; longer for stores that charge for them",
            kind="duration",
            default="1s",
            minimum=1,
        ),
        Option(
            "checkpointLocation",
            "streams: the query's checkpoint, as the writer has it. What was read is then kept beside it; else in each "
            "offset, 11 bytes a file",
        ),
        Option(
            "changedFiles",
            "A file that changed between planning and reading; read takes what is there now in the planned range",
            kind="choice",
            choices=("read", "skip", "fail"),
            default="fail",
        ),
        Option("ignoreMissingFiles", "Skip files that disappeared before they were read", kind="bool", default="false"),
        Option("ignoreCorruptFiles", "Skip the rest of a file that cannot be read", kind="bool", default="false"),
        Option(
            "maxSplitBytes", "Largest piece of a file that one task reads", kind="bytes", default="128mb", minimum=1
        ),
        Option(
            "openCostInBytes", "What opening a file costs, as bytes that could be read", kind="bytes", default="4mb"
        ),
        Option(
            "cleanSource",
            "Files read and committed",
            kind="choice",
            choices=("off", "archive", "delete"),
            default="off",
        ),
        Option("sourceArchiveDir", "Where cleanSource=archive moves files to"),
        Option(
            "includeMetadata", "Add the _file_* columns to a fixed or inferred schema", kind="bool", default="false"
        ),
        Option("mode", "A row that does not fit the schema", kind="choice", choices=_MODES, default="PERMISSIVE"),
        Option("columnNameOfCorruptRecord", "String column for the text of a bad row", default="_corrupt_record"),
        Option("encoding", "Encoding of text, csv and json (also: charset)", default="UTF-8"),
        Option("charset", "The same as encoding"),
        Option("lineSep", "What ends a row; default: \\n, \\r\\n and \\r"),
        Option("wholetext", "text: one row per file", kind="bool", default="false"),
        Option(
            "multiLine",
            "csv, json: rows may hold line ends; a file is then read by one task",
            kind="bool",
            default="false",
        ),
        Option("header", "csv: the first line holds names", kind="bool", default="false"),
        Option(
            "enforceSchema",
            "csv: take columns by position, do not look at the header's names",
            kind="bool",
            default="true",
        ),
        Option("sep", "csv: what separates cells (also: delimiter)", default=","),
        Option("delimiter", "csv: the same as sep"),
        Option("quote", "csv: quote character; empty turns quoting off", default='"'),
        Option("escape", "csv: escapes a quote inside a quoted cell (a doubled quote always does)", default="\\"),
        Option("comment", "csv: lines that begin with this character are skipped"),
        Option("nullValue", "csv: text of a null", default=""),
        Option("emptyValue", "csv: value of a quoted empty cell; null if it equals nullValue", default=""),
        Option("ignoreLeadingWhiteSpace", "csv: strip blanks before a cell", kind="bool", default="false"),
        Option("ignoreTrailingWhiteSpace", "csv: strip blanks after a cell", kind="bool", default="false"),
        Option(
            "dateFormat",
            "csv, json: pattern of dates, as Spark's: letters y M d D E H h a m s S X x Z, 'text'; default ISO",
        ),
        Option("timestampFormat", "csv, json: pattern of timestamps, likewise; default ISO"),
        Option("timeZone", "Zone of timestamps that name none", default="UTC"),
        Option("inferSchema", "csv: infer types (batch), not only names", kind="bool", default="false"),
        Option("mergeSchema", "parquet: infer from every file instead of one", kind="bool", default="false"),
        *STORAGE_OPTIONS,
    )
)


@dataclass(frozen=True)
class SourceOptions:
    """The options of the source: checked, typed, and picklable. ``format`` is how the contents of files are read."""

    paths: tuple[str, ...]
    storage_options: Mapping[str, str | None] = field(repr=False)
    path_glob_filter: str | None
    recursive: bool
    max_files: int
    max_bytes: int | None
    discovery_interval_ms: int
    checkpoint_location: str | None
    changed_files: str
    ignore_missing_files: bool
    ignore_corrupt_files: bool
    max_split_bytes: int
    open_cost_bytes: int
    clean_source: str
    archive_dir: str | None
    include_metadata: bool
    format: ReadOptions

    @classmethod
    def from_values(cls, values: OptionValues) -> SourceOptions:
        """Takes the options from ``values``. Raises BadConfigurationError for values that do not go together."""
        if values["cleanSource"] == "archive" and not values["sourceArchiveDir"]:
            raise BadConfigurationError("cleanSource=archive needs the option 'sourceArchiveDir'")
        return cls(
            paths=_paths(values),
            storage_options=values.with_prefix("s3."),
            path_glob_filter=values["pathGlobFilter"],
            recursive=values["recursiveFileLookup"],
            max_files=values["maxFilesPerTrigger"],
            max_bytes=values["maxBytesPerTrigger"],
            discovery_interval_ms=values["discoveryInterval"],
            checkpoint_location=values["checkpointLocation"],
            changed_files=values["changedFiles"],
            ignore_missing_files=values["ignoreMissingFiles"],
            ignore_corrupt_files=values["ignoreCorruptFiles"],
            max_split_bytes=values["maxSplitBytes"],
            open_cost_bytes=values["openCostInBytes"],
            clean_source=values["cleanSource"],
            archive_dir=values["sourceArchiveDir"],
            include_metadata=values["includeMetadata"],
            format=ReadOptions.from_values(values),
        )


def _paths(values: OptionValues) -> tuple[str, ...]:
    found = [values["path"]] if values["path"] else []
    if values["paths"]:
        try:
            listed = json.loads(values["paths"])
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(path, str) and path for path in listed):
            raise BadConfigurationError('option \'paths\': write a JSON list of texts, as in ["in/a", "in/b"]')
        found += listed
    if not found:
        raise BadConfigurationError("source penstock.filesystem needs a path: .load(\"in/\") or the option 'paths'")
    return tuple(found)
