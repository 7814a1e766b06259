"""Error codes of files. A number is never used for another situation."""

from __future__ import annotations

from penstock.error_codes import ErrorBook

__all__ = ["BOOK"]

#: ``PENSTOCK-FILES-NNN``.
BOOK = ErrorBook("FILES")

MISSING = BOOK.add(
    1,
    "A path does not exist, or a glob matches nothing",
    causes=["The path is misspelled, or relative to another directory than you think.",
            "The bucket or the prefix does not exist.", "A disk or share is not mounted."],
    remedies=["Correct the path; write it absolute.", "Create the directory, if files are to come later."],
)  # fmt: skip
BOOK.add(
    2,
    "An option of files is wrong",
    raised_in=["penstock_filesystem.options", "penstock_filesystem.source._source",
               "penstock_filesystem.source._cleaner", "penstock_filesystem.source.discovery",
               "penstock_filesystem.source.tracking", "penstock_filesystem.sink._sink",
               "penstock_filesystem.sink._extensions", "penstock_filesystem.formats.third_party",
               "penstock_filesystem.formats.csv"],
    causes=["A value of another form, options that exclude each other, or a name that can't be imported."],
    remedies=["Correct the option that the message names (docs/filesystem.md)."],
)  # fmt: skip
BOOK.add(
    3,
    "No schema can be inferred, or it does not fit the files",
    raised_in=["penstock_filesystem.source._columns", "penstock_filesystem.source._new_columns",
               "penstock_filesystem.source._metadata", "penstock_filesystem.source._partitions",
               "penstock_filesystem.source._schema_location", "penstock_filesystem.formats"],
    causes=["There is no file yet, or all are empty or of another format.",
            "Files have other columns or types than the schema, or than each other."],
    remedies=["Give the schema: `.schema('id long, at timestamp')`.", "Correct the type of the column that is named."],
)  # fmt: skip
BOOK.add(
    4,
    "A file can't be read",
    raised_in=["penstock_filesystem.source._reader:BadDataError", "penstock_filesystem.formats:BadDataError"],
    causes=["The file is damaged, cut off, or of another format.",
            "It was changed after it was listed: it was written in place.", "A row is not as the schema says."],
    remedies=["Remove or repair the file that the message names.",
              "Set `ignoreCorruptFiles`, `mode` or `badRecords` to continue without such data.",
              "Write files elsewhere, and move them in when they are complete."],
)  # fmt: skip
BOOK.add(
    5,
    "A file disappeared after it was listed",
    raised_in=["penstock_filesystem.source._reader:DataLostError"],
    causes=["Another program removed or moved it before it was read."],
    remedies=["Bring it back and restart.", "Set `ignoreMissingFiles` to true."],
)
BOOK.add(
    6,
    "A file or directory does not answer",
    raised_in=["penstock_filesystem:RetriableError", "penstock_filesystem.source:RetriableError",
               "penstock_filesystem.source._source:RetriableError", "penstock_filesystem.source._reader:RetriableError",
               "penstock_filesystem.source._schema_location:RetriableError",
               "penstock_filesystem.source._new_columns:RetriableError",
               "penstock_filesystem.source.tracking:RetriableError", "penstock_filesystem.formats:RetriableError",
               "penstock_filesystem.sink.staging:RetriableError"],
    causes=["A store is busy, or a share is not mounted.", "A file is being changed while it is read."],
    remedies=["Restart the query once the store answers."],
)  # fmt: skip
BOOK.add(
    7,
    "A bucket, a partition or a format can't be made of the rows",
    raised_in=["penstock_filesystem.sink._buckets", "penstock_filesystem.formats._writer_base",
               "penstock_filesystem.formats.text._writer", "penstock_filesystem.formats.sequence._writer"],
    causes=["A column for buckets or partitions is missing or of another type.",
            "The format can't hold a column's type."],
    remedies=["Correct `partitionColumns` or `bucketColumn`.", "Cast the column, or choose parquet."],
)  # fmt: skip
BOOK.add(
    8,
    "Staged files are gone or changed",
    raised_in=["penstock_filesystem.sink.staging", "penstock_filesystem.sink._committable"],
    causes=["Someone removed files below `.penstock/`.", "A lifecycle rule of the bucket ended uploads."],
    remedies=["Restore them, or `penstock resolve CHECKPOINT` (docs/production/recovering.md)."],
)
BOOK.add(
    9,
    "What a query remembers of its files is damaged or of another version",
    raised_in=["penstock_filesystem.source.tracking:FatalError", "penstock_filesystem.source.tracking:BadDataError",
               "penstock_filesystem.source._schema_location:FatalError", "penstock_filesystem.source._split"],
    causes=["Files next to the checkpoint were changed or removed.", "Another release wrote them."],
    remedies=["Put them back from a copy.", "Install the release that wrote them."],
)  # fmt: skip
BOOK.add(
    10,
    "A file was begun with other options",
    raised_in=["penstock_filesystem.source._reader"],
    causes=["Options of the format were changed while a file was read in ranges."],
    remedies=["Set the options back until the file is through."],
)
