"""The options of the source: as users set them, and as the source takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import Condition, Option, OptionSet, OptionValues, common_option, unless, when
from penstock.serialization.values import TimeParser, check_zone
from penstock.storage import STORAGE_OPTIONS, storage_options
from penstock_filesystem.formats import READ_FORMATS, ReadOptions, check_encoding, check_line_sep
from penstock_filesystem.options._formats import format_options
from penstock_filesystem.options._instead import NOT_READ

__all__ = ["SOURCE_OPTIONS", "SourceOptions"]

_LINES = (when("format", "text", "csv", "json"),)
_CSV_OR_JSON = (when("format", "csv", "json"),)
_CSV = (when("format", "csv"),)
_JSON = (when("format", "json"),)
_NAMED_COLUMNS = (unless("format", "text", "csv", "json", "binary", "sequencefile"),)


def _of_format(
    name: str,
    doc: str,
    needs: tuple[Condition | tuple[Condition, ...], ...],
    kind: Literal["string", "bool", "float", "int"] = "string",
    default: str | None = None,
    **more: Any,
) -> Option:
    """Returns an option of some formats. With another format it is ignored with a warning."""
    return Option(name, doc, kind, default, needs=needs, tolerated=True, **more)


def _check_ratio(value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError("a share above 0, up to 1")


def _check_queue(text: str) -> None:
    if not text.startswith(("https://", "http://")) or urlsplit(text).path.strip("/") == "":
        raise ValueError("the address of a queue, as in https://sqs.eu-west-1.amazonaws.com/123456789012/new-files")


def _check_time(text: str) -> None:
    try:
        _time_us(text, TimeParser("UTC"))
    except ValueError:
        raise ValueError("a timestamp, as in 2026-01-31T12:00:00 or 2026-01-31T12:00:00+01:00") from None


def _time_us(text: str, times: TimeParser) -> int:
    return times.timestamp(text, pa.timestamp("us", "UTC"))


def _check_name(text: str) -> None:
    if not text.strip():
        raise ValueError("the name of a column")


#: The options that a user may set on the source.
SOURCE_OPTIONS = OptionSet(
    (
        Option("path", "Directory, file or glob to read; given by load(...)", kind="path"),
        Option("paths", "Several of them, as a JSON list of texts", kind="paths"),
        *format_options("What the files hold", READ_FORMATS, required=True),
        Option(
            "maxFilesPerTrigger",
            "Most files in a micro-batch",
            kind="int",
            default="10000",
            minimum=1,
            only_in="stream",
            tolerated=True,
        ),
        common_option("maxBytesPerTrigger", ", about: after so many it takes no more splits"),
        Option("pathGlobFilter", "Only files whose name matches this glob"),
        Option(
            "modifiedAfter",
            "Only files modified after this time, such as 2026-01-31T12:00:00, in timeZone if it names no zone",
            check=_check_time,
        ),
        Option("modifiedBefore", "Only files modified before this time, likewise", check=_check_time),
        Option(
            "recursiveFileLookup",
            "true: all nested directories are looked into, and their names are no columns; false: only directories "
            "name=value. Default: all are looked into, and those name=value are columns",
            kind="bool",
        ),
        Option(
            "basePath",
            "Directory below which the directories name=value are columns; default: each path",
            kind="path",
            excludes=(when("recursiveFileLookup"),),
        ),
        common_option("discoveryInterval", ", a listing; longer for stores that charge for them", default="1s"),
        Option(
            "notificationQueue",
            "Address of a queue of SQS that gets the bucket's notifications of new objects, for this query alone: it "
            "replaces most listings",
            check=_check_queue,
            only_in="stream",
            advice="leave it out: a batch lists what is there",
        ),
        Option(
            "listingInterval",
            "Pause between two listings, which find what no notification came for",
            kind="duration",
            default="1h",
            minimum=1,
            needs=(when("notificationQueue"),),
        ),
        Option(
            "checkpointLocation",
            "The query's checkpoint, as the writer has it. What was read is then kept next to it; else in each offset, "
            "11 bytes a file",
            kind="path",
            only_in="stream",
            tolerated=True,
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
            "What happens to files that were read, once their batch is committed",
            kind="choice",
            choices=("off", "archive", "delete"),
            default="off",
            only_in="stream",
            advice="leave it out, or read them as a stream with .trigger(availableNow=True)",
        ),
        Option(
            "sourceArchiveDir",
            "Where files are moved to",
            kind="path",
            needs=(when("cleanSource", "archive"),),
            required_with=(when("cleanSource", "archive"),),
        ),
        Option(
            "includeMetadata",
            "Add the _file_* columns to a fixed or inferred schema",
            kind="bool",
            default="false",
            infers=True,
        ),
        common_option(
            "badRecords",
            ", or does not fit the schema: null (its columns are null), drop (it is left out), fail, or deadLetter "
            "(null, and its bytes with the reason in badRecordColumn)",
            choices=("null", "drop", "fail", "deadLetter"),
            default="null",
            needs=_LINES,
            tolerated=True,
            aliases=("mode",),
            choice_aliases=(("PERMISSIVE", "null"), ("DROPMALFORMED", "drop"), ("FAILFAST", "fail")),
        ),
        common_option(
            "badRecordColumn",
            ": a string column of the schema that gets a bad row's text; with badRecords=deadLetter, which default to "
            "_bad_record, its bytes and the reason",
            default="_corrupt_record",
            needs=(
                (*_CSV_OR_JSON, when("badRecords", "deadLetter")),
                when("badRecords", "null", "deadLetter"),
            ),
            tolerated=True,
            aliases=("columnNameOfCorruptRecord",),
        ),
        _of_format("encoding", "Character set", _LINES, default="UTF-8", check=check_encoding, aliases=("charset",)),
        _of_format(
            "lineSep",
            "What ends a row; default: \\n, \\r\\n and \\r",
            _LINES,
            check=check_line_sep,
            excludes=(when("multiLine"),),
        ),
        _of_format("wholetext", "One row per file", (when("format", "text"),), "bool", "false"),
        _of_format("multiLine", "Rows may hold line ends; one task then reads a file", _CSV_OR_JSON, "bool", "false"),
        _of_format("header", "The first line holds names", _CSV, "bool", "false"),
        _of_format(
            "enforceSchema",
            "Take columns by position, do not look at the header's names",
            (*_CSV, when("header")),
            "bool",
            "true",
        ),
        _of_format("sep", "What separates cells", _CSV, default=",", aliases=("delimiter",)),
        _of_format("quote", "Quote character; empty turns quoting off", _CSV, default='"'),
        _of_format("escape", "Escapes a quote inside a quoted cell (a doubled quote always does)", _CSV, default="\\"),
        _of_format("comment", "Lines that begin with this character are skipped", _CSV),
        _of_format("nullValue", "Text of a null", _CSV, default=""),
        _of_format("emptyValue", "Value of a quoted empty cell; null if it equals nullValue", _CSV, default=""),
        _of_format("nanValue", "Text that is read as NaN, besides NaN", _CSV, default="NaN"),
        _of_format("positiveInf", "Text that is read as infinity, besides Infinity", _CSV, default="Inf"),
        _of_format("negativeInf", "Text that is read as minus infinity, besides -Infinity", _CSV, default="-Inf"),
        _of_format(
            "maxColumns",
            "Accepted for compatibility with Spark; has no effect: a row may have any number of columns",
            _CSV,
            "int",
            "20480",
            ignored="a row may have any number of columns",
        ),
        _of_format(
            "maxCharsPerColumn",
            "Accepted for compatibility with Spark; has no effect: a cell may have any length",
            _CSV,
            "int",
            "-1",
            ignored="a cell may have any length",
        ),
        _of_format("ignoreLeadingWhiteSpace", "Strip blanks before a cell", _CSV, "bool", "false"),
        _of_format("ignoreTrailingWhiteSpace", "Strip blanks after a cell", _CSV, "bool", "false"),
        _of_format(
            "dateFormat",
            "Pattern of dates, as Spark's: letters y M d D E H h a m s S X x Z, 'text'; default ISO",
            _CSV_OR_JSON,
        ),
        _of_format("timestampFormat", "Pattern of timestamps, likewise; default ISO", _CSV_OR_JSON),
        _of_format("timestampNTZFormat", "Pattern of timestamp_ntz, likewise; default ISO", _CSV_OR_JSON),
        Option(
            "timeZone",
            "Zone of timestamps that name none: in CSV, JSON and ORC, in names of directories, and in options",
            default="UTC",
            check=check_zone,
        ),
        _of_format("allowSingleQuotes", "Names and texts may be in single quotes", _JSON, "bool", "true"),
        _of_format(
            "allowNonNumericNumbers",
            "NaN, Infinity, +INF and -INF are numbers",
            _JSON,
            "bool",
            "true",
        ),
        _of_format("allowComments", "Comments as Java's, /* */ and //, are skipped", _JSON, "bool", "false"),
        _of_format("allowUnquotedFieldNames", "Names need no quotes", _JSON, "bool", "false"),
        _of_format("allowNumericLeadingZeros", "Numbers may begin with zeros: 007", _JSON, "bool", "false"),
        _of_format(
            "allowBackslashEscapingAnyCharacter",
            "A backslash may be before any character, which is then taken as it is",
            _JSON,
            "bool",
            "false",
        ),
        _of_format("allowUnquotedControlChars", "Texts may hold control characters", _JSON, "bool", "false"),
        _of_format(
            "primitivesAsString",
            "Infer strings for whatever is no object and no list",
            _JSON,
            "bool",
            "false",
            infers=True,
        ),
        _of_format(
            "prefersDecimal",
            "Infer decimals for numbers with a fraction, and for texts that hold a number",
            _JSON,
            "bool",
            "false",
            infers=True,
        ),
        _of_format(
            "dropFieldIfAllNull",
            "Leave out fields that are always null, or an empty list",
            _JSON,
            "bool",
            "false",
            infers=True,
        ),
        _of_format("inferSchema", "Infer types (batch), not only names", _CSV, "bool", "false", infers=True),
        _of_format(
            "samplingRatio",
            "Share of the rows from which types are inferred, taken in blocks of 4 MiB; 1 is every row",
            ((when("format", "json"), when("inferSchema")),),
            "float",
            "1",
            check=_check_ratio,
            infers=True,
        ),
        Option(
            "missingColumns",
            "A column of the schema that a file and its directories lack: fail, or null (so with mergeSchema and "
            "schemaLocation)",
            kind="choice",
            choices=("fail", "null"),
            default="fail",
            needs=_NAMED_COLUMNS,
            excludes=(when("mergeSchema"), when("schemaLocation")),
            tolerated=True,
        ),
        Option(
            "schemaLocation",
            "Directory that remembers the schema of a stream for which none is given: it is inferred once, and again "
            "where a file has new columns",
            kind="path",
            needs=(unless("format", "text", "csv", "binary", "sequencefile"),),
            only_in="stream",
            advice="leave it out",
        ),
        Option(
            "newColumns",
            "A file that has columns, or wider types, that the remembered schema lacks: fail (they are remembered, and "
            "a restart reads them), or ignore",
            kind="choice",
            choices=("fail", "ignore"),
            default="fail",
            needs=(when("schemaLocation"),),
        ),
        Option(
            "rescuedDataColumn",
            "A string column that gets what does not fit the schema, as a JSON object: columns and fields that it "
            "lacks, and values of another type, which are null then. Rows are not bad because of them",
            needs=(unless("format", "text", "binary", "sequencefile"),),
            check=_check_name,
        ),
        Option(
            "mergeSchema",
            "Infer the columns of every file, not only those of the oldest; a file may lack some of them",
            kind="bool",
            default="false",
            needs=_NAMED_COLUMNS,
            excludes=(when("schemaLocation"),),
            tolerated=True,
        ),
        *STORAGE_OPTIONS,
    ),
    instead=NOT_READ,
)


@dataclass(frozen=True)
class SourceOptions:
    """The options of the source: checked, typed, and picklable. ``format`` is how the contents of files are read."""

    paths: tuple[str, ...]
    storage_options: Mapping[str, str] = field(repr=False)
    path_glob_filter: str | None
    modified_after_us: int | None
    modified_before_us: int | None
    recursive: bool
    base_path: str | None
    with_partitions: bool
    directory_times: TimeParser
    max_files: int
    max_bytes: int | None
    discovery_interval_ms: int
    notification_queue: str | None
    listing_interval_ms: int
    checkpoint_location: str | None
    changed_files: str
    ignore_missing_files: bool
    ignore_corrupt_files: bool
    max_split_bytes: int
    open_cost_bytes: int
    clean_source: str
    archive_dir: str | None
    schema_location: str | None
    include_metadata: bool
    format: ReadOptions

    @classmethod
    def from_values(cls, values: OptionValues) -> SourceOptions:
        """Takes the options from ``values``. Raises BadConfigurationError for values that do not go together."""

        times = TimeParser(values["timeZone"])

        def time_us(name: str) -> int | None:
            return None if values[name] is None else _time_us(values[name], times)

        return cls(
            paths=_paths(values),
            storage_options=storage_options(values),
            path_glob_filter=values["pathGlobFilter"],
            modified_after_us=time_us("modifiedAfter"),
            modified_before_us=time_us("modifiedBefore"),
            recursive=values["recursiveFileLookup"] is not False,
            base_path=values["basePath"],
            with_partitions=values["recursiveFileLookup"] is not True,
            directory_times=times,
            max_files=values["maxFilesPerTrigger"],
            max_bytes=values["maxBytesPerTrigger"],
            discovery_interval_ms=values["discoveryInterval"],
            notification_queue=values["notificationQueue"],
            listing_interval_ms=values["listingInterval"],
            checkpoint_location=values["checkpointLocation"],
            changed_files=values["changedFiles"],
            ignore_missing_files=values["ignoreMissingFiles"],
            ignore_corrupt_files=values["ignoreCorruptFiles"],
            max_split_bytes=values["maxSplitBytes"],
            open_cost_bytes=values["openCostInBytes"],
            clean_source=values["cleanSource"],
            archive_dir=values["sourceArchiveDir"],
            schema_location=values["schemaLocation"],
            include_metadata=values["includeMetadata"],
            format=ReadOptions.from_values(values),
        )


def _paths(values: OptionValues) -> tuple[str, ...]:
    found = [values["path"]] if values["path"] else []
    if values["paths"]:
        try:
            listed = json.loads(values["paths"])
        except (ValueError, RecursionError):
            listed = None
        if not isinstance(listed, list) or not all(isinstance(path, str) and path for path in listed):
            raise BadConfigurationError('option \'paths\': write a JSON list of texts, as in ["in/a", "in/b"]')
        found += listed
    if not found:
        raise BadConfigurationError("source penstock.filesystem needs a path: .load(\"in/\") or the option 'paths'")
    return tuple(found)
