"""What SQL and Spark's writers do with our formats: the lines of docs/sql.md, each of which is run here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "sql.md"
READ = "USING penstock.filesystem OPTIONS (path '{here}/in', format 'csv', header 'true')"
TARGET = "USING penstock.filesystem OPTIONS (path '{here}/out', format 'json', bucketAssigner 'basePath')"
SCHEMA = "(id BIGINT, note STRING)"

#: Each line of the page: statements, and then the rows that the last one gives, or a part of its error.
WORKS = {
    "`CREATE TEMPORARY VIEW v (…) USING …`, then `SELECT`": (
        [f"CREATE TEMPORARY VIEW penstock_v {SCHEMA} {READ}", "SELECT * FROM penstock_v WHERE id > 1"],
        [(2, "b")],
    ),
    "a view without columns, of a source that can infer them": (
        [f"CREATE TEMPORARY VIEW penstock_v {READ}", "SELECT * FROM penstock_v WHERE id = '1'"],
        [("1", "a")],
    ),
    "`DESCRIBE` of a view": (
        [f"CREATE TEMPORARY VIEW penstock_v {SCHEMA} {READ}", "DESCRIBE penstock_v"],
        [("id", "bigint", None), ("note", "string", None)],
    ),
    "`INSERT INTO` a view": (
        [f"CREATE TEMPORARY VIEW penstock_v {SCHEMA} {TARGET}", "INSERT INTO penstock_v VALUES (9, 'x')"],
        [],
    ),
}
REFUSED = {
    "``SELECT * FROM penstock.filesystem.`path` ``": (
        ["SELECT * FROM penstock.filesystem.`{here}/in`"],
        "REQUIRES_SINGLE_PART_NAMESPACE",
    ),
    "`CREATE TABLE … USING …` without columns": ([f"CREATE TABLE penstock_t {READ}"], "has no option 'location'"),
    "`CREATE TABLE … USING …` with columns, then `SELECT`": (
        [f"CREATE TABLE penstock_t {SCHEMA} {READ}", "SELECT * FROM penstock_t"],
        "needs the option 'format'",
    ),
    "`CREATE TABLE … USING …` with columns, then `INSERT INTO`": (
        [f"CREATE TABLE penstock_t {SCHEMA} {TARGET}", "INSERT INTO penstock_t VALUES (9, 'x')"],
        "needs the option 'path'",
    ),
}
WRITES = {
    '`df.write.mode("append").save()`': (lambda writer: writer.mode("append").save(), ""),
    "`df.write.save()` (mode `error`)": (lambda writer: writer.save(), "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    '`mode("ignore")`': (lambda writer: writer.mode("ignore").save(), "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    '`mode("overwrite")`': (lambda writer: writer.mode("overwrite").save(), "can't overwrite"),
    "`df.write.partitionBy(…)`": (
        lambda writer: writer.mode("append").partitionBy("note").save(),
        "do not match the existing table",
    ),
    "`df.write.bucketBy(…)`": (lambda writer: writer.mode("append").bucketBy(2, "note").save(), "bucketBy"),
}


def test_the_page_has_these_lines():
    rows = re.findall(r"^\| (.+?) \| (works|refused) \|", PAGE.read_text(), re.MULTILINE)
    wanted = dict.fromkeys(WORKS, "works") | dict.fromkeys(REFUSED, "refused")
    wanted |= {line: "refused" if error else "works" for line, (_, error) in WRITES.items()}
    assert dict(rows) == wanted and len(rows) == len(wanted)


@pytest.fixture
def here(tmp_path, spark):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id,note\n1,a\n2,b\n")
    yield tmp_path
    spark.sql("DROP VIEW IF EXISTS penstock_v")
    spark.sql("DROP TABLE IF EXISTS penstock_t")


def run(spark, here, statements):
    *first, last = (text.replace("{here}", str(here)) for text in statements)
    for text in first:
        spark.sql(text)
    return [tuple(row) for row in spark.sql(last).collect()]


def written(here):
    lines = [line for path in (here / "out").glob("*.json") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


@pytest.mark.spark
@pytest.mark.parametrize("line", WORKS)
def test_sql_that_works(spark, here, line):
    statements, expected = WORKS[line]
    assert run(spark, here, statements) == expected
    assert written(here) == ([{"id": 9, "note": "x"}] if "INSERT" in line else [])


@pytest.mark.spark
@pytest.mark.parametrize("line", REFUSED)
def test_sql_that_is_refused(spark, here, line):
    statements, error = REFUSED[line]
    with pytest.raises(Exception, match=re.escape(error)):
        run(spark, here, statements)
    assert written(here) == []


@pytest.mark.spark
@pytest.mark.parametrize("line", WRITES)
def test_writers(spark, here, line):
    write, error = WRITES[line]
    writer = spark.sql("SELECT 9L AS id, 'x' AS note").write.format("penstock.filesystem")
    writer = writer.option("path", str(here / "out")).option("format", "json").option("bucketAssigner", "basePath")
    if error:
        with pytest.raises(Exception, match=re.escape(error)):
            write(writer)
    else:
        write(writer)
    assert written(here) == ([] if error else [{"id": 9, "note": "x"}])
