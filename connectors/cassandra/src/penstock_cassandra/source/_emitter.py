"""Pages of results as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import BadDataError
from penstock.source import ReaderContext, RecordEmitter
from penstock_cassandra.client import RawRows
from penstock_cassandra.source._split import TokenSplit
from penstock_cassandra.types import check_count, check_readable, cql_type_of, decode_page

__all__ = ["CassandraRecordEmitter"]


class CassandraRecordEmitter(RecordEmitter[RawRows, TokenSplit]):
    """Pages as columns, cell by cell for no row."""

    def __init__(self, context: ReaderContext) -> None:
        self._schema = context.schema
        #: Of the last page, compared with the schema.
        self._columns: Any = None

    def emit_record(self, element: RawRows, split_state: Any) -> Iterator[pa.RecordBatch]:
        """Yields one batch for each page."""
        names = [column[2] for column in element.columns]
        types = [cql_type_of(column[3]) for column in element.columns]
        wanted = {field.name: field.type for field in self._schema}
        if not wanted:
            check_count(element.body, element.count, len(types))
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * element.count, pa.struct([])))
            return
        missing = [n for n in wanted if n not in names]
        if missing:
            raise BadDataError(f"a page of a result has no column '{missing[0]}', which was asked for")
        if element.columns is not self._columns:
            for name, cql in zip(names, types, strict=True):
                if name in wanted:
                    check_readable(name, cql, wanted[name])
            self._columns = element.columns
        columns = decode_page(element.body, element.count, types, [wanted.get(n) for n in names], names)
        by_name = dict(zip(names, columns, strict=True))
        yield pa.RecordBatch.from_arrays([by_name[field.name] for field in self._schema], schema=self._schema)
