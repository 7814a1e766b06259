"""The columns of a read without a schema, as far as they are in the files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from lzma import LZMAError

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.printable import get_logger
from penstock.serialization import MALFORMED, shortened
from penstock_filesystem.formats import FormatReader, InputFile, SchemaInference

__all__ = ["infer_columns"]

_log = get_logger("penstock.filesystem")

#: What a reader raises for a file from which no schema can be taken.
_NOT_INFERRED = (pa.ArrowException, OSError, LZMAError, *MALFORMED)
_SECONDS_BETWEEN_LINES = 10


def infer_columns(format_reader: FormatReader, files: Sequence[InputFile], *, skips_corrupt: bool) -> pa.Schema:
    """Infers them from ``files``: some that are not empty, oldest first.

    ``skips_corrupt``: files that can't be read are left out, with a warning. Another warning says if the newest file
    has columns that the schema lacks. Raises BadConfigurationError for files that can't be read, or do not go together,
    and BadDataError for a bad row if ``badRecords`` is fail.
    """
    inference = format_reader.inference(_Progress(sum(file.size for file in files)).add)
    corrupt = 0
    for file in files:
        if inference.is_complete:
            break
        try:
            inference.add(file)
        except _NOT_INFERRED as error:
            if not skips_corrupt:
                raise BadConfigurationError(
                    f"the schema of {file.url} could not be inferred: {shortened(str(error))}"
                ) from error
            _log.warning("%s is left out of the schema, as it can't be read: %s", file.url, error)
            corrupt += 1
    if corrupt == len(files):
        raise BadConfigurationError(f"no schema could be inferred: all {len(files)} files are corrupt")
    schema = inference.schema()
    if inference.is_complete and len(files) > 1:
        _compare(inference, files[-1])
    return schema


def _compare(inference: SchemaInference, newest: InputFile) -> None:
    try:
        left_out = inference.left_out(newest)
    except BadConfigurationError as error:
        left_out = str(error)
    except _NOT_INFERRED:
        return  # the read says so
    if left_out:
        _log.warning(
            "%s has columns that are not read, as the schema is that of the oldest file: %s; set mergeSchema to true "
            "to read those of all files",
            newest.url,
            left_out,
        )


class _Progress:
    """Says every ten seconds how far it is."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES

    def add(self, size: int) -> None:
        self._done += size
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
            _log.warning(
                "inferring the schema: %d of %d MiB are read; to start at once give one with .schema(...), or set "
                "samplingRatio to look at fewer rows",
                self._done >> 20,
                self._total >> 20,
            )
