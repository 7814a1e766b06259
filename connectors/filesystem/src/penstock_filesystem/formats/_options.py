"""The options of the formats: what decides how the contents of a file are read and written."""

from __future__ import annotations

from codecs import lookup
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.dead_letters import LETTER_COLUMN
from penstock.options import OptionValues
from penstock.serialization.values import TimeParser, TimeReader
from penstock_filesystem.formats.csv import CsvReadDialect, CsvWriteDialect
from penstock_filesystem.formats.json import JsonReadDialect

__all__ = ["ReadOptions", "WriteOptions", "check_encoding", "check_line_sep"]


@dataclass(frozen=True)
class ReadOptions:
    """How the contents of files are read. ``name`` is the format's, ``bad_records`` says what happens to a bad row:
    null, drop, fail or deadLetter, which puts it into ``letter_column``. ``refuses_new_columns``: a column that the
    schema lacks is an error. ``rescue_column``: the string column for what does not fit the schema.
    ``adds_corrupt_column``: an inferred JSON schema has it even if no row was bad yet. ``format_options`` are those of
    a third-party format.
    """

    name: str
    bad_records: str
    corrupt_column: str
    encoding: str
    line_sep: str | None
    whole_text: bool
    multi_line: bool
    csv: CsvReadDialect
    json: JsonReadDialect
    times: TimeParser
    merge_schema: bool
    sampling_ratio: float
    refuses_new_columns: bool
    adds_corrupt_column: bool
    missing_columns: str
    rescue_column: str | None
    letter_column: str | None
    format_options: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_values(cls, values: OptionValues) -> ReadOptions:
        """Takes them from a source's options. Raises BadConfigurationError."""
        remembers = values["schemaLocation"] is not None
        merges = values["mergeSchema"] or remembers
        return cls(
            name=values["format"],
            bad_records=values["badRecords"],
            corrupt_column="" if values["badRecords"] == "deadLetter" else values["badRecordColumn"],
            encoding=lookup(values["encoding"]).name,
            line_sep=values["lineSep"],
            whole_text=values["wholetext"],
            multi_line=values["multiLine"],
            csv=CsvReadDialect.from_values(values),
            json=JsonReadDialect.from_values(values),
            times=_times(values),
            merge_schema=merges,
            sampling_ratio=values["samplingRatio"],
            refuses_new_columns=remembers and values["newColumns"] == "fail",
            adds_corrupt_column=remembers and values["badRecords"] == "null",
            missing_columns="null" if merges else values["missingColumns"],
            rescue_column=values["rescuedDataColumn"],
            letter_column=_letter_column(values),
            format_options=values.with_prefix("format."),
        )


def _letter_column(values: OptionValues) -> str | None:
    if values["badRecords"] != "deadLetter":
        return None
    return str(values["badRecordColumn"]) if values.is_set("badRecordColumn") else LETTER_COLUMN


def check_encoding(name: str) -> None:
    """Checks an option's value. Raises ValueError if Python has no character set of that name."""
    try:
        lookup(name)
    except LookupError:
        raise ValueError("the name of a character set such as UTF-8") from None


def check_line_sep(text: str) -> None:
    """Checks an option's value. Raises ValueError for an empty text: rows would run into each other."""
    if not text:
        raise ValueError("what ends a row: write at least one character")


def _times(values: OptionValues) -> TimeParser:
    def reader(option: str) -> TimeReader | None:
        return TimeReader(option, values[option]) if values[option] else None

    return TimeParser(values["timeZone"], reader("dateFormat"), reader("timestampFormat"), reader("timestampNTZFormat"))


@dataclass(frozen=True)
class WriteOptions:
    """How the contents of files are written. ``name`` is the format's; patterns are in the letters of Java.

    ``format_options`` are those of a third-party format.
    """

    name: str
    compression: str | None
    line_sep: str
    csv: CsvWriteDialect
    timestamp_pattern: str | None
    ntz_pattern: str | None
    date_pattern: str | None
    ignore_null_fields: bool
    row_group_rows: int
    format_options: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_values(cls, values: OptionValues) -> WriteOptions:
        """Takes them from a sink's options."""
        return cls(
            name=values["format"],
            compression=values["compression"],
            line_sep=values["lineSep"],
            csv=CsvWriteDialect.from_values(values),
            timestamp_pattern=values["timestampFormat"],
            ntz_pattern=values["timestampNTZFormat"],
            date_pattern=values["dateFormat"],
            ignore_null_fields=values["ignoreNullFields"],
            row_group_rows=values["rowGroupSize"],
            format_options=values.with_prefix("format."),
        )
