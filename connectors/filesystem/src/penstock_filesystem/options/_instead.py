"""Options of Spark's own reader and writer of files that this connector lacks, with what to do instead."""

from __future__ import annotations

__all__ = ["NOT_READ", "NOT_WRITTEN"]

_LEAVE_OUT = "leave it out"
_WRITING = f"it is an option of writing: {_LEAVE_OUT}"
_READING = f"it is an option of reading: {_LEAVE_OUT}"
_ENGLISH = f"names of months and numbers are English: {_LEAVE_OUT}"

#: For the source.
NOT_READ = {
    "latestFirst": "files are read in the order of their modification times: modifiedAfter leaves old ones out",
    "maxFileAge": "every file is read once, however old it is: modifiedAfter leaves old ones out",
    "fileNameOnly": f"a file is known by its whole path: {_LEAVE_OUT}",
    "maxCachedFiles": f"what a listing has found is kept until it is read: {_LEAVE_OUT}",
    "discardCachedInputRatio": f"what a listing has found is kept until it is read: {_LEAVE_OUT}",
    "ignoreInvalidPartitionPaths": "directories whose columns differ are refused: read them one by one, or set "
    "recursiveFileLookup",
    "ignoreExtension": "every file that is not hidden is read: pathGlobFilter leaves others out",
    "avroSchema": "give the schema with .schema(...)",
    "avroSchemaUrl": "give the schema with .schema(...)",
    "positionalFieldMatching": f"columns are found by their names: {_LEAVE_OUT}",
    "datetimeRebaseMode": f"days of the Julian calendar are refused: {_LEAVE_OUT}",
    "int96RebaseMode": f"days of the Julian calendar are refused: {_LEAVE_OUT}",
    "locale": _ENGLISH,
    "unescapedQuoteHandling": f"a quote in a cell without quotes is text, up to the next separator: {_LEAVE_OUT}",
    "charToEscapeQuoteEscaping": f"the escape character escapes itself, unless it is the quote: {_LEAVE_OUT}",
    "preferDate": "days are inferred as dates: for timestamps, give the schema with .schema(...)",
    "inferTimestamp": "texts are inferred as strings: for timestamps, give the schema with .schema(...)",
    "enableDateTimeParsingFallback": "a row with a time that does not fit the pattern is bad: give a pattern that fits",
    "timeFormat": "times without a day are not read: make the column a string",
    "singleVariantColumn": "read the rows with format text, and use parse_json() on them",
    "columnPruning": f"the schema says which columns are read: {_LEAVE_OUT}",
    "inputBufferSize": f"files are read in blocks of some MiB: {_LEAVE_OUT}",
    "useUnsafeRow": f"rows are read as Arrow batches: {_LEAVE_OUT}",
    "compression": f"the end of a file's name says how it is compressed: {_LEAVE_OUT}",
    "codec": f"the end of a file's name says how it is compressed: {_LEAVE_OUT}",
    **dict.fromkeys(("parquet.compression", "orc.compress"), f"the file says how it is compressed: {_LEAVE_OUT}"),
    **dict.fromkeys(("quoteAll", "escapeQuotes", "extension", "ignoreNullFields", "pretty", "sortKeys"), _WRITING),
    "writeNonAsciiCharacterAsCodePoint": _WRITING,
}
#: For the sink.
NOT_WRITTEN = {
    **dict.fromkeys(("codec", "parquet.compression", "orc.compress"), "write it as compression"),
    "maxRecordsPerFile": "a file ends at a size: set maxPartSize",
    "partitionOverwriteMode": f"files are added to those that are there: {_LEAVE_OUT}",
    "extension": "the format says how names end: partSuffix adds to that",
    "encoding": f"files are written in UTF-8: {_LEAVE_OUT}",
    "charset": f"files are written in UTF-8: {_LEAVE_OUT}",
    "timeZone": "timestamps are written in UTC: leave it out, or write strings",
    "locale": _ENGLISH,
    "escapeQuotes": f"a quote in a cell is always escaped: {_LEAVE_OUT}",
    "charToEscapeQuoteEscaping": f"what is written is read as it was: {_LEAVE_OUT}",
    "ignoreLeadingWhiteSpace": "cells are written with their blanks: leave it out, or use ltrim() on the columns",
    "ignoreTrailingWhiteSpace": "cells are written with their blanks: leave it out, or use rtrim() on the columns",
    "pretty": f"an object is a line: {_LEAVE_OUT}",
    "sortKeys": f"fields are in the order of the columns: {_LEAVE_OUT}",
    "writeNonAsciiCharacterAsCodePoint": f"files are written in UTF-8: {_LEAVE_OUT}",
    "timeFormat": "times without a day are not written: make the column a string",
    "avroSchema": f"the schema is that of the rows: {_LEAVE_OUT}",
    "recordName": f"the schema is that of the rows: {_LEAVE_OUT}",
    "recordNamespace": f"the schema is that of the rows: {_LEAVE_OUT}",
    **dict.fromkeys(
        (
            *("columnNameOfCorruptRecord", "columnPruning", "comment", "enableDateTimeParsingFallback"),
            *("enforceSchema", "inferSchema", "inputBufferSize", "maxCharsPerColumn", "maxColumns", "mode"),
            *("multiLine", "nanValue", "negativeInf", "positiveInf", "preferDate", "samplingRatio"),
            *("singleVariantColumn", "unescapedQuoteHandling", "useUnsafeRow", "wholetext", "mergeSchema"),
            *("allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers"),
            *("allowNumericLeadingZeros", "allowSingleQuotes", "allowUnquotedControlChars"),
            *("allowUnquotedFieldNames", "dropFieldIfAllNull", "inferTimestamp", "prefersDecimal"),
            *("primitivesAsString", "datetimeRebaseMode", "int96RebaseMode"),
        ),
        _READING,
    ),
}
