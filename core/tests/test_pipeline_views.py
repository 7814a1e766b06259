"""Views of a pipeline in a session: which of them one query can feed to several sinks, and what a batch gives."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from penstock.cli._check import check_pipeline
from penstock.cli._frames import Views, _flattened
from penstock.cli._queries import _base, plan_queries
from penstock.errors import BadConfigurationError

pytestmark = pytest.mark.spark

PIPELINE = """
sources:
  orders: {{format: rate, watermark: {{column: timestamp, delay: 1 minute}}}}
  returns: {{format: rate}}
  customers: {{format: csv, read: batch, schema: "k long, name string", options: {{path: {table}}}}}
views: {views}
sinks:
  a: {{from: {a}, format: penstock.filesystem, options: {{path: a}}}}
  b: {{from: {b}, format: penstock.filesystem, options: {{path: b}}}}
checkpoint: {checkpoint}
"""
#: SQL that follows from ``orders`` row by row.
ROW_BY_ROW = [
    "SELECT value FROM orders WHERE value > 1",
    "SELECT o.value FROM Orders AS o",
    "SELECT explode(array(value, 2)) AS v FROM orders",
    "SELECT * FROM orders JOIN customers ON value = k",
    "SELECT * FROM orders LEFT JOIN customers ON value = k",
    "SELECT orders.* FROM customers RIGHT JOIN orders ON value = k",
    "SELECT * FROM orders LEFT ANTI JOIN customers ON value = k",
    "WITH x AS (SELECT value FROM orders), y AS (SELECT * FROM x) SELECT * FROM y WHERE value > 2",
    "SELECT value, (SELECT max(k) FROM customers) AS m FROM orders WHERE value IN (SELECT k FROM customers)",
    "SELECT /*+ BROADCAST(customers) */ * FROM customers JOIN orders ON value = k",
    "SELECT value, rand() AS r FROM (SELECT * FROM orders)",
]
#: SQL whose result depends on more than the rows of one batch of ``orders``.
WITH_STATE = [
    "SELECT count(*) AS n FROM orders",
    "SELECT DISTINCT value FROM orders",
    "SELECT value, count(*) FROM orders GROUP BY value",
    "SELECT value FROM orders UNION SELECT value FROM orders",
    "SELECT value FROM orders UNION ALL SELECT value FROM returns",
    "SELECT o.value FROM orders o JOIN returns r ON o.value = r.value",
    "SELECT * FROM customers LEFT JOIN orders ON value = k",
    "SELECT * FROM orders FULL JOIN customers ON value = k",
    "SELECT value FROM orders LIMIT 3",
    "SELECT value, row_number() OVER (ORDER BY value) AS n FROM orders",
    "WITH x AS (SELECT count(*) AS n FROM orders) SELECT * FROM x",
]


@pytest.fixture
def views_of(spark, tmp_path):
    (tmp_path / "t.csv").write_text("1,one\n2,two\n")

    def make(views, a, b, **more):
        path = tmp_path / f"{uuid.uuid4().hex}.yaml"
        text = PIPELINE.format(table=tmp_path / "t.csv", views=views, a=a, b=b, checkpoint=tmp_path / "ck")
        path.write_text(text + "".join(f"{key}: {value}\n" for key, value in more.items()))
        pipeline, mistakes = check_pipeline(path, {})
        assert pipeline is not None and all(one.is_warning for one in mistakes), mistakes
        return pipeline, Views(spark, pipeline)

    return make


@pytest.mark.parametrize("sql", ROW_BY_ROW)
def test_what_follows_row_by_row_is_fed_by_the_same_query(views_of, sql):
    pipeline, views = views_of({"made": sql}, "orders", "made")
    assert _base(pipeline.sinks, views) == ("orders", {"made"})


@pytest.mark.parametrize("sql", WITH_STATE)
def test_what_has_a_state_is_not(views_of, sql):
    pipeline, views = views_of({"made": sql}, "orders", "made")
    with pytest.raises(
        BadConfigurationError, match="sinks 'a' and 'b' take from different streams, 'orders' and 'made'"
    ):
        _base(pipeline.sinks, views)


def test_a_stream_in_a_subquery_is_refused_by_spark(views_of):
    with pytest.raises(AnalysisException, match="STREAMING_QUERY"):
        views_of({"made": "SELECT value FROM orders WHERE value IN (SELECT value FROM orders)"}, "orders", "made")


def test_what_has_a_state_is_the_base_of_what_follows(views_of):
    views = {
        "counts": "SELECT value, count(*) AS n FROM orders GROUP BY value",
        "many": "SELECT * FROM counts WHERE n > 1",
    }
    pipeline, made = views_of(views, "counts", "many")
    assert _base(pipeline.sinks, made) == ("counts", {"many"})
    pipeline, made = views_of({**views, "few": "SELECT * FROM Counts WHERE n < 2"}, "many", "few")
    assert _base(pipeline.sinks, made) == ("counts", {"many", "few"})
    pipeline, made = views_of({"both": "SELECT value FROM orders UNION ALL SELECT value FROM returns"}, "both", "BOTH")
    assert _base(pipeline.sinks, made) == ("both", set())


def test_a_name_that_is_only_an_alias_is_no_view(views_of):
    pipeline, made = views_of({"made": "SELECT value FROM returns AS orders"}, "orders", "made")
    with pytest.raises(BadConfigurationError, match="different streams"):
        _base(pipeline.sinks, made)


def test_separate_queries_take_from_whatever_they_like(spark, views_of):
    pipeline, _ = views_of({"made": "SELECT value FROM returns"}, "orders", "made", commit="separate")
    assert [one.label for one in plan_queries(spark, pipeline)] == ["a", "b"]


def test_a_table_feeds_no_sink(spark, views_of):
    pipeline, _ = views_of({"made": "SELECT * FROM orders"}, "customers", "made")
    with pytest.raises(BadConfigurationError, match="sink 'a' takes from 'customers', which no stream leads to"):
        plan_queries(spark, pipeline)


def test_views_of_a_batch(spark, views_of, tmp_path):
    """SQL and Python, in the order of the file, with tables as they are at that moment."""
    (tmp_path / "job_of_views.py").write_text(
        "def twice(spark, views):\n    return views['named'].union(views['named'])\n"
    )
    views = {"named": "SELECT value, name FROM orders JOIN customers ON value = k", "other": "SELECT * FROM orders"}
    views["both"] = {"python": "job_of_views.py:twice"}
    pipeline, made = views_of(views, "orders", "both")
    rows = spark.range(4).selectExpr("current_timestamp() AS timestamp", "id AS value")
    with pytest.raises(BadConfigurationError):  # a union of a stream with itself reads it twice
        _base(pipeline.sinks, made)
    found = made.again("orders", rows, {"named", "both"})
    assert sorted(found) == ["both", "named", "orders"]
    assert sorted(map(tuple, found["both"].collect())) == [(1, "one"), (1, "one"), (2, "two"), (2, "two")]


def test_a_result_without_a_name(views_of, spark):
    """That of ``transform``."""
    pipeline, made = views_of({"x": "SELECT value FROM orders"}, "x", "x")
    text = Path(pipeline.path).read_text().replace("views: {'x': ", "transform: {sql: ").replace("from: x, ", "")
    pipeline.path.write_text(text)
    pipeline, mistakes = check_pipeline(pipeline.path, {})
    assert mistakes and all(one.is_warning for one in mistakes)
    made = Views(spark, pipeline)
    assert _base(pipeline.sinks, made) == ("", set())
    assert made.again("", spark.range(3), set())[""].count() == 3


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("flatten: v", ["id", "at", "n", "w"]),
        ("flatten: [V, w]", ["id", "at", "n", "x"]),
        ("select: [v.at AS at, 'id + 1 AS next']", ["at", "next"]),
        ("select: v.*, upper(string(id)) AS text", ["at", "n", "text"]),
        ("flatten: v\n  select: at, n", ["at", "n"]),
    ],
)
def test_nested_columns_come_before_the_watermark(spark, tmp_path, source, columns):
    schema = "id long, v struct<at: timestamp, n: long>, w struct<x: int>"
    path = tmp_path / "p.yaml"
    path.write_text(
        f'source:\n  format: json\n  schema: "{schema}"\n  options: {{path: {tmp_path}}}\n  {source}\n'
        "  watermark: {column: at, delay: 1 minute}\n"
        "sink: {format: noop}\ncheckpoint: ck\n"
    )
    pipeline, mistakes = check_pipeline(path, {})
    assert pipeline is not None and mistakes == []
    frame = Views(spark, pipeline).frame("source")
    assert frame.columns == columns
    assert "EventTimeWatermark" in frame._jdf.queryExecution().analyzed().toString()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x"], "flatten: 'x' is no struct column; there are: id, v"),
        (["id"], "flatten: 'id' is no struct column"),
        (["v"], "flatten: two columns would be called 'id': use 'select', and rename one"),
    ],
)
def test_what_can_not_be_flattened(spark, names, message):
    rows = spark.sql("SELECT 1 AS id, named_struct('ID', 2, 'a.`b', 3) AS v")
    with pytest.raises(BadConfigurationError, match=message):
        _flattened(rows, names)
    rows = rows.drop("id")
    assert _flattened(rows, ["v"]).columns == ["ID", "a.`b"]
