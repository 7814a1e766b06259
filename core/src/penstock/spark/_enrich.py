"""Look-ups as Arrow functions of Spark: only the keys go to Python, and pandas is not needed."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType

from penstock.enrichment import TableLookup
from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint

__all__ = ["enrich"]

_FOUND = "_penstock_found"


def enrich(rows: DataFrame, lookup: TableLookup) -> DataFrame:
    """``rows``, batch or stream, with the columns that ``lookup`` finds behind their own.

    A key is looked up in the task that has the row; memory is an Arrow batch of keys
    (``spark.sql.execution.arrow.maxRecordsPerBatch``) and what was found for it. Raises BadConfigurationError, at once,
    for columns that are missing or there already, and for what the look-up refuses.
    """
    wanted = from_arrow_schema(lookup.result_schema())
    taken = next((name for name in wanted.names if name in rows.columns), None)
    if taken is not None:
        raise BadConfigurationError(f"the rows have a column '{taken}' already: rename it first")
    absent = next((name for name in lookup.key_columns if name not in rows.columns), None)
    if absent is not None:
        raise BadConfigurationError(f"the rows have no column '{absent}'{nearest_hint(absent, rows.columns)}")

    def look_up(keys: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for structs in keys:
            yield lookup.look_up(pa.RecordBatch.from_struct_array(structs))

    # Spark reads the hints to know that this takes and gives iterators.
    look_up.__annotations__ = {"keys": Iterator[pa.Array], "return": Iterator[pa.Array]}
    found = functions.arrow_udf(look_up, ArrayType(wanted))(functions.struct(*map(_column, lookup.key_columns)))
    own = [_column(name) for name in rows.columns]
    each = functions.explode if lookup.inner else functions.explode_outer
    joined = rows.select(*own, each(found).alias(_FOUND))
    return joined.select(*own, *(functions.col(f"{_FOUND}.{_quoted(name)}") for name in wanted.names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column(name: str) -> Column:
    return functions.col(_quoted(name))
