"""The source: a split is a file, which never changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.json

from penstock.errors import BadDataError
from penstock.source import ReaderContext, SimpleSource, SimpleSplit
from penstock.testing._samples.connector._options import SourceOptions

__all__ = ["MinimalSource"]

#: Of a file. Arrow reads some 32 blocks ahead, and a row must fit into one.
_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True)
class MinimalSource(SimpleSource):
    """Finds splits, and reads one."""

    options: SourceOptions

    def find_splits(self) -> list[SimpleSplit]:
        names = sorted(os.listdir(self.options.path)) if os.path.isdir(self.options.path) else []
        visible = [name for name in names if not name.startswith(".")]
        return [SimpleSplit(name, os.path.getsize(f"{self.options.path}/{name}")) for name in visible]

    def read_split(self, split: SimpleSplit, context: ReaderContext) -> Iterator[pa.RecordBatch]:
        parsing = pa.json.ParseOptions(explicit_schema=context.schema, unexpected_field_behavior="ignore")
        reading = pa.json.ReadOptions(block_size=_BLOCK_BYTES)
        path = f"{self.options.path}/{split.split_id}"
        try:
            with pa.json.open_json(path, reading, parsing) as batches:
                yield from batches
        except pa.ArrowInvalid as error:
            raise BadDataError(f"{path} does not fit the schema: {error}") from None
