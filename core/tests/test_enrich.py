"""A look-up through Spark, on a table that is a dictionary."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

import penstock
from penstock.enrichment import TableLookup
from penstock.errors import BadConfigurationError

TABLE = {1: ["one"], 2: ["two", "deux"]}


class Words(TableLookup):
    def __init__(self, keys=("n",), inner=False):
        self.keys, self.inner = keys, inner

    @property
    def key_columns(self):
        return self.keys

    def result_schema(self):
        return pa.schema([("a `word`", pa.string()), ("length", pa.int32())])

    def look_up(self, keys):
        assert keys.schema.names == list(self.keys)
        found = [
            [{"a `word`": word, "length": len(word)} for word in TABLE.get(n, [])] for n in keys.column(0).to_pylist()
        ]
        return pa.array(found, pa.list_(pa.struct(list(self.result_schema()))))


@pytest.mark.spark
def test_a_row_gets_all_that_is_found(spark):
    rows = spark.range(4).selectExpr("id as n", "struct(id as x) as `other.column`")
    outer = penstock.enrich(rows, Words())
    assert outer.columns == ["n", "other.column", "a `word`", "length"]
    found = [(1, 1, "one", 3), (2, 2, "two", 3), (2, 2, "deux", 4)]
    nothing = [(0, 0, None, None), (3, 3, None, None)]
    assert sorted((r[0], r[1].x, r[2], r[3]) for r in outer.collect() if r[2]) == sorted(found)
    assert sorted((r[0], r[1].x, r[2], r[3]) for r in outer.collect() if not r[2]) == nothing
    inner = penstock.enrich(rows, Words(inner=True))
    assert sorted((r[0], r[1].x, r[2], r[3]) for r in inner.collect()) == sorted(found)


@pytest.mark.spark
def test_workers_collect_no_garbage_among_what_is_loaded(spark):
    from pyspark.sql.functions import arrow_udf, col

    def frozen(ids):
        return pa.array([gc.get_freeze_count()] * len(ids))

    frozen.__annotations__ = {"ids": pa.Array, "return": pa.Array}
    here = gc.get_freeze_count()
    for _ in range(3):
        penstock.enrich(spark.range(1).selectExpr("id as n"), Words()).collect()
    assert spark.range(1).select(arrow_udf(frozen, "long")(col("id"))).first()[0] > 10_000
    assert gc.get_freeze_count() == here


@pytest.mark.spark
def test_what_does_not_fit_is_told(spark):
    with pytest.raises(BadConfigurationError, match="no column 'm'"):
        penstock.enrich(spark.range(1).selectExpr("id as n"), Words(keys=("m",)))
    with pytest.raises(BadConfigurationError, match="a column 'length' already"):
        penstock.enrich(spark.range(1).selectExpr("id as n", "1 as length"), Words())
