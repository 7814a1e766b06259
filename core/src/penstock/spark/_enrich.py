"""Lookups and calls as Arrow functions of Spark. Pandas is not needed; a lookup passes only keys to Python."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from penstock.enrichment import AsyncFunction, AsyncSpec, Enricher, TableLookup, as_function, settings_of
from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint
from penstock.spark._gc_tuning import freeze_modules
from penstock.spark._workers import classic_context, run_this_python

__all__ = ["enrich", "enrich_async"]

_FOUND = "_penstock_found"


def enrich(rows: DataFrame, lookup: TableLookup) -> DataFrame:
    """``rows``, batch or stream, with the columns that ``lookup`` finds after their own.

    A key is looked up in the task that has the row; memory is an Arrow batch of keys
    (``spark.sql.execution.arrow.maxRecordsPerBatch``) and what was found for it. Raises BadConfigurationError, at once,
    for columns that are missing or there already, and for what the lookup refuses.
    """
    wanted = from_arrow_schema(lookup.result_schema())
    _check(rows, lookup.key_columns, wanted.names)
    run_this_python(classic_context(rows.sparkSession))

    def look_up(keys: Iterator[pa.Array]) -> Iterator[pa.Array]:
        freeze_modules()
        for structs in keys:
            yield lookup.look_up(pa.RecordBatch.from_struct_array(structs))

    # Spark reads the hints to know that this takes and gives iterators.
    look_up.__annotations__ = {"keys": Iterator[pa.Array], "return": Iterator[pa.Array]}
    found = functions.arrow_udf(look_up, ArrayType(wanted))(functions.struct(*map(_column, lookup.key_columns)))
    own = [_column(name) for name in rows.columns]
    each = functions.explode if lookup.inner else functions.explode_outer
    joined = rows.select(*own, each(found).alias(_FOUND))
    return joined.select(*own, *(functions.col(f"{_FOUND}.{_quoted(name)}") for name in wanted.names))


def enrich_async(
    rows: DataFrame,
    function: AsyncFunction | Callable[[Any], Any],
    returns: str | StructType,
    *,
    on: str | Sequence[str] | None = None,
    ordered: bool = True,
    capacity: int = 100,
    timeout: str = "30s",
    attempts: int = 1,
    pause: str | None = None,
    longest_pause: str | None = None,
    retry_on: tuple[type[Exception], ...] | None = None,
    failures: Literal["fail", "null", "column"] = "fail",
    failure_column: str | None = None,
    group_size: int = 1,
    cache_rows: int = 0,
    cache_for: str | None = None,
) -> DataFrame:
    """``rows``, batch or stream, with the columns that ``function`` gives for each of them after their own.

    ``function`` is an :class:`penstock.enrichment.AsyncFunction`, a coroutine function of a row, or a blocking
    function, which is called in threads. It sees the columns ``on`` (default: all) as a mapping, and gives a mapping of
    the columns ``returns`` (in Spark's language: ``"score double, note string"``) or ``None``; with a ``group_size``
    above 1, lists of both.

    At most ``capacity`` calls of a task are in flight, each for at most ``timeout``; it is made ``attempts`` times for
    errors of ``retry_on`` (all) and timeouts, with pauses that grow from ``pause`` (100 ms) to ``longest_pause`` (10 s,
    or ``pause`` if that is longer) and are shortened at random. A call that fails in the end ends the query
    (``failures="fail"``), gives nulls (``"null"``), or its reason goes to ``failure_column`` (``"column"``;
    ``failure``). With ``cache_rows``, rows of the same ``on`` in one worker process are asked for once in ``cache_for``
    (10 minutes).

    A watermark of ``rows`` holds for the result. Rows stay in order within a task; with ``ordered=False``, Arrow
    batches leave as they are done, so that one that is slow holds up only three others. Memory: four Arrow batches of a
    task (``spark.sql.execution.arrow.maxRecordsPerBatch``) and their results. A row that is processed again after a
    failure is asked for again: calls happen at least once.

    Raises BadConfigurationError, at once, for columns and settings that do not fit or would have no effect. The query
    fails with FatalError for a call that failed, BadDataError for a result that is not what ``returns`` says.
    """
    wanted = StructType.fromDDL(returns) if isinstance(returns, str) else returns
    keys = rows.columns if on is None else [on] if isinstance(on, str) else list(on)
    given = {
        "ordered": ordered,
        "capacity": capacity,
        "timeout": timeout,
        "attempts": attempts,
        "pause": pause,
        "longest_pause": longest_pause,
        "failures": failures,
        "failure_column": failure_column,
        "group_size": group_size,
        "cache_rows": cache_rows,
        "cache_for": cache_for,
    }
    settings = settings_of(given, retry_on)
    run_this_python(classic_context(rows.sparkSession))
    called = as_function(function, capacity)
    spec = AsyncSpec(uuid.uuid4().hex, called, tuple(keys), to_arrow_schema(wanted), settings)
    added = from_arrow_schema(spec.added)
    _check(rows, keys, added.names)
    whole = StructType([*rows.schema.fields, *wanted.fields, *added.fields[len(wanted.fields) :]])
    # Spark sends a batch of its own making where a call gives none: it has the same schema only if all may be null.
    return functions.arrow_udtf(_handler(spec), returnType=_nullable(whole))(rows.asTable())


def _handler(spec: AsyncSpec) -> type[Any]:
    """Returns the class that Spark creates for each task; it gets the task's rows, batch by batch."""

    class EnrichAsync:
        def __init__(self) -> None:
            freeze_modules()
            self._enricher = Enricher(spec)

        def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
            for done in self._enricher.put(rows):
                yield pa.Table.from_batches([done])

        def terminate(self) -> Iterator[pa.Table]:
            for done in self._enricher.finish():
                yield pa.Table.from_batches([done])

    # Spark reads the hints to know that it takes Arrow.
    EnrichAsync.eval.__annotations__ = {"rows": pa.RecordBatch, "return": Iterator[pa.Table]}
    EnrichAsync.terminate.__annotations__ = {"return": Iterator[pa.Table]}
    return EnrichAsync


def _nullable(kind: Any) -> Any:
    """Returns the type with nulls allowed everywhere but in keys of maps."""
    if isinstance(kind, StructType):
        return StructType([StructField(one.name, _nullable(one.dataType), True, one.metadata) for one in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return kind


def _check(rows: DataFrame, keys: Sequence[str], added: Sequence[str]) -> None:
    fold = str if rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true" else str.lower
    there = set(map(fold, rows.columns))
    taken = next((name for name in added if fold(name) in there), None)
    if taken is not None:
        raise BadConfigurationError(f"the rows have a column '{taken}' already: rename it first")
    if twice := next((name for name, times in Counter(map(fold, added)).items() if times > 1), None):
        raise BadConfigurationError(f"two columns that are added are called '{twice}': rename one")
    absent = next((name for name in keys if name not in rows.columns), None)
    if absent is not None:
        raise BadConfigurationError(f"the rows have no column '{absent}'{nearest_hint(absent, rows.columns)}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column(name: str) -> Column:
    return functions.col(_quoted(name))
