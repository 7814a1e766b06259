"""The lines of docs/sql.md, for any session: classic or over Spark Connect."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["LINES", "Line", "prepare", "problem_of"]

SCHEMA = "(id BIGINT, note STRING)"
NEW = [{"id": 9, "note": "x"}]
ROWS = [(1, "a"), (2, "b")]
COPIED = [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}]
#: Names of what a line makes; the tests drop them.
VIEW, TABLE = "penstock_v", "penstock_t"


class Place:
    """A session, and a directory with CSV files in ``in/``; what is written is in ``out/``."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.source = {"path": str(folder / "in"), "format": "csv", "header": "true"}
        self.target = {"path": str(folder / "out"), "format": "json", "bucketAssigner": "basePath"}
        self._checkpoint = str(folder / "checkpoint")

    def sql(self, *statements: str, **given: Any) -> list[tuple[Any, ...]]:
        """Runs statements, with ``{source}`` and ``{target}`` for options, and returns the rows of the last one."""
        for text in statements:
            for name, options in (("source", self.source), ("target", self.target)):
                text = text.replace(f"{{{name}}}", _texts(options, " ")).replace(f"{{{name}=}}", _texts(options, " = "))
            answer = self.spark.sql(text, **given)
        return [tuple(row) for row in answer.collect()]

    @property
    def new(self) -> Any:
        """A row to be written."""
        return self.spark.sql("SELECT 9L AS id, 'x' AS note")

    def view(self, options: str, columns: str) -> None:
        self.sql(f"CREATE TEMPORARY VIEW {VIEW} {columns} USING penstock.filesystem OPTIONS ({options})")

    def table(self) -> None:
        self.sql(f"CREATE TABLE {TABLE} {SCHEMA} USING penstock.filesystem")

    def stream(self) -> Any:
        reader = self.spark.readStream.format("penstock.filesystem").options(**self.source)
        return reader.schema("id long, note string").load()

    def stream_writer(self, rows: Any, mode: str = "append") -> Any:
        writer = rows.writeStream.format("penstock.filesystem").options(**self.target).outputMode(mode)
        return writer.option("checkpointLocation", self._checkpoint).trigger(availableNow=True)

    def copy(self, rows: Any, mode: str = "append") -> None:
        self.stream_writer(rows, mode).start().awaitTermination()

    def batch_writer(self) -> Any:
        return self.new.write.format("penstock.filesystem").options(**self.target)


def _texts(options: dict[str, str], between: str) -> str:
    return ", ".join(f"{name}{between}'{text}'" for name, text in options.items())


@dataclass(frozen=True)
class Line:
    """A line of the page: what is called, and a part of its error, or the rows that it returns and has written."""

    call: Callable[[Place], Any]
    error: str = ""
    rows: Sequence[Any] | None = None
    written: Sequence[Any] = field(default_factory=list)


def _on_view(options: str, call: Callable[[Place], Any], columns: str = SCHEMA) -> Callable[[Place], Any]:
    def run(place: Place) -> Any:
        place.view(options, columns)
        return call(place)

    return run


def _on_table(call: Callable[[Place], Any]) -> Callable[[Place], Any]:
    def run(place: Place) -> Any:
        place.table()
        return call(place)

    return run


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def _on_stream(query: str, call: Callable[[Place, Any], Any]) -> Callable[[Place], Any]:
    def run(place: Place) -> Any:
        place.stream().createOrReplaceTempView(VIEW)
        return call(place, place.spark.sql(query))

    return run


def _count(place: Place) -> Any:
    place.stream().createOrReplaceTempView(VIEW)
    return place.spark.sql(f"SELECT note, count(*) AS n FROM {VIEW} GROUP BY note")


def _made_before(place: Place) -> Any:
    place.batch_writer().mode("append").saveAsTable(TABLE)
    return place.spark.table(TABLE).collect()


NO_OPTIONS = "a table of Spark's catalog keeps none of a source in Python"
NO_MODE = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
NO_STREAM = "is not a temp view of streaming logical plan"

IN_SQL = {
    "`CREATE TEMPORARY VIEW v (…) USING …`, then `SELECT`": Line(
        _on_view("{source}", lambda place: place.sql(f"SELECT * FROM {VIEW} WHERE id > 1")), rows=[(2, "b")]
    ),
    "a view without columns, of a source that can infer them": Line(
        _on_view("{source}", lambda place: place.sql(f"SELECT * FROM {VIEW} WHERE id = '1'"), columns=""),
        rows=[("1", "a")],
    ),
    "`DESCRIBE` of a view": Line(
        _on_view("{source}", lambda place: place.sql(f"DESCRIBE {VIEW}")),
        rows=[("id", "bigint", None), ("note", "string", None)],
    ),
    "`spark.sql` with parameters": Line(
        _on_view("{source}", lambda place: place.sql(f"SELECT * FROM {VIEW} WHERE id > :least", args={"least": 1})),
        rows=[(2, "b")],
    ),
    "`CACHE TABLE` of a view": Line(
        _on_view("{source}", lambda place: place.sql(f"CACHE TABLE {VIEW}", f"SELECT * FROM {VIEW}")), rows=ROWS
    ),
    "`INSERT INTO` a view": Line(
        _on_view("{target}", lambda place: place.sql(f"INSERT INTO {VIEW} VALUES (9, 'x')")), written=NEW
    ),
    "`INSERT OVERWRITE` a view": Line(
        _on_view("{target}", lambda place: place.sql(f"INSERT OVERWRITE {VIEW} VALUES (9, 'x')")), "can't overwrite"
    ),
    "a view of a stream (`createOrReplaceTempView`), `SELECT` into a stream": Line(
        _on_stream(f"SELECT * FROM {VIEW}", Place.copy), written=COPIED
    ),
    "`SELECT` of a stream's view without `writeStream`": Line(
        _on_stream(f"SELECT * FROM {VIEW}", lambda _, rows: rows.collect()), "must be executed with writeStream"
    ),
    "`FROM STREAM v` where `v` was made with `USING`": Line(
        _on_view("{source}", lambda place: place.copy(place.spark.sql(f"SELECT * FROM STREAM {VIEW}"))), NO_STREAM
    ),
    "``SELECT * FROM penstock.filesystem.`path` ``": Line(
        lambda place: place.sql(f"SELECT * FROM penstock.filesystem.`{place.source['path']}`"),
        "REQUIRES_SINGLE_PART_NAMESPACE",
    ),
    "`CREATE TABLE … USING … OPTIONS (…)` without columns": Line(
        lambda place: place.sql(f"CREATE TABLE {TABLE} USING penstock.filesystem OPTIONS ({{source}})"), NO_OPTIONS
    ),
    "`CREATE TABLE … USING … AS SELECT`": Line(
        lambda place: place.sql(
            f"CREATE TABLE {TABLE} USING penstock.filesystem OPTIONS ({{target}}) AS SELECT 9L AS id, 'x' AS note"
        ),
        NO_OPTIONS,
    ),
    "`CREATE TABLE … USING …` with columns, then `SELECT`": Line(
        lambda place: place.sql(
            f"CREATE TABLE {TABLE} {SCHEMA} USING penstock.filesystem OPTIONS ({{source}})", f"SELECT * FROM {TABLE}"
        ),
        NO_OPTIONS,
    ),
    "`CREATE TABLE … USING …` with columns, then `INSERT INTO`": Line(
        lambda place: place.sql(
            f"CREATE TABLE {TABLE} {SCHEMA} USING penstock.filesystem OPTIONS ({{target}})",
            f"INSERT INTO {TABLE} VALUES (9, 'x')",
        ),
        NO_OPTIONS,
    ),
    "`CREATE TABLE … USING … PARTITIONED BY`, `CLUSTER BY` or `CLUSTERED BY`": Line(
        lambda place: place.sql(f"CREATE TABLE {TABLE} {SCHEMA} USING penstock.filesystem PARTITIONED BY (id)"),
        "PARTITIONED BY has no effect",
    ),
    "`CREATE TABLE … USING … LOCATION`": Line(
        lambda place: place.sql(f"CREATE TABLE {TABLE} {SCHEMA} USING penstock.filesystem LOCATION '/nowhere'"),
        "LOCATION has no effect",
    ),
    "`SELECT` of a table `WITH` options": Line(
        _on_table(lambda place: place.sql(f"SELECT * FROM {TABLE} WITH ({{source=}})")), rows=ROWS
    ),
    "`INSERT INTO` a table `WITH` options": Line(
        _on_table(lambda place: place.sql(f"INSERT INTO {TABLE} WITH ({{target=}}) VALUES (9, 'x')")), written=NEW
    ),
}

IN_PYTHON = {
    '`df.write.mode("append").save()`': Line(lambda place: place.batch_writer().mode("append").save(), written=NEW),
    "`df.write.save()` (mode `error`)": Line(lambda place: place.batch_writer().save(), NO_MODE),
    '`mode("ignore")`': Line(lambda place: place.batch_writer().mode("ignore").save(), NO_MODE),
    '`mode("overwrite")`': Line(lambda place: place.batch_writer().mode("overwrite").save(), "can't overwrite"),
    "`df.write.partitionBy(…)`": Line(
        lambda place: place.batch_writer().option("bucketAssigner", "columns").mode("append").partitionBy("id").save(),
        written=[{"note": "x"}],
    ),
    "`df.write.bucketBy(…)`": Line(
        lambda place: place.batch_writer().mode("append").bucketBy(2, "note").save(), "bucketBy"
    ),
    "`df.write.clusterBy(…)`": Line(
        lambda place: place.batch_writer().mode("append").clusterBy("note").save(), "cluster"
    ),
    "`df.write.insertInto(view)`": Line(
        _on_view("{target}", lambda place: place.new.write.insertInto(VIEW)), written=NEW
    ),
    "`df.writeTo(view).append()`": Line(
        _on_view("{target}", lambda place: place.new.writeTo(VIEW).append()), written=NEW
    ),
    "`df.writeTo(view).overwritePartitions()`": Line(
        _on_view("{target}", lambda place: place.new.writeTo(VIEW).overwritePartitions()), "dynamic overwrite"
    ),
    '`df.write.options(…).mode("append").saveAsTable(t)`': Line(
        lambda place: place.batch_writer().mode("append").saveAsTable(TABLE), written=NEW
    ),
    "`df.write.partitionBy(…).saveAsTable(t)`": Line(
        lambda place: (
            place.batch_writer().option("bucketAssigner", "columns").mode("append").partitionBy("id").saveAsTable(TABLE)
        ),
        written=[{"note": "x"}],
    ),
    "`df.writeTo(t).using(…).partitionedBy(…).create()`": Line(
        lambda place: (
            place.new.writeTo(TABLE).using("penstock.filesystem").options(**place.target).partitionedBy("id").create()
        ),
        "partitionedBy has no effect",
    ),
    "`df.writeTo(t).using(…).options(…).create()`": Line(
        lambda place: place.new.writeTo(TABLE).using("penstock.filesystem").options(**place.target).create(),
        written=NEW,
    ),
    "`spark.table(t)` of such a table": Line(_made_before, NO_OPTIONS, written=NEW),
    "`spark.read.options(…).table(t)`": Line(
        _on_table(lambda place: _rows(place.spark.read.options(**place.source).table(TABLE))), rows=ROWS
    ),
    "`spark.readStream.options(…).table(t)`": Line(
        _on_table(lambda place: place.copy(place.spark.readStream.options(**place.source).table(TABLE))),
        written=COPIED,
    ),
    "`spark.readStream.table(view)` where `view` was made with `USING`": Line(
        _on_view("{source}", lambda place: place.copy(place.spark.readStream.table(VIEW))), NO_STREAM
    ),
    "`df.writeStream.options(…).toTable(t)`": Line(
        lambda place: place.stream_writer(place.stream()).toTable(TABLE).awaitTermination(), written=COPIED
    ),
    "`df.writeStream.clusterBy(…)`": Line(
        lambda place: place.stream_writer(place.stream()).clusterBy("note").start().awaitTermination(),
        "clusterBy has no effect",
    ),
    "`df.writeStream.toTable(view)`": Line(
        _on_view("{target}", lambda place: place.stream_writer(place.stream()).toTable(VIEW).awaitTermination()),
        "doesn't support streaming write",
    ),
}

#: Of files; the tests try the other sinks without a session.
MODES = {
    "`append`": Line(lambda place: place.copy(place.stream()), written=COPIED),
    "`update`": Line(lambda place: place.copy(_count(place), "update"), "no output mode update"),
    "`complete`, to files, Kafka and Pravega": Line(
        lambda place: place.copy(_count(place), "complete"), "can't take complete results"
    ),
}

LINES: dict[str, Line] = {**IN_SQL, **IN_PYTHON, **MODES}


def prepare(folder: Path) -> None:
    """Writes what the lines read."""
    (folder / "in").mkdir(parents=True)
    (folder / "in/a.csv").write_text("id,note\n1,a\n2,b\n")


def problem_of(line: Line, spark: Any, folder: Path) -> str:
    """Runs ``line`` and returns what differs from what the page says; empty if nothing does."""
    error, rows = "", None
    try:
        rows = line.call(Place(spark, folder))
    except Exception as raised:
        error = str(raised) or repr(raised)
    spark.sql(f"DROP VIEW IF EXISTS {VIEW}")
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
    # Values of partition columns are in the directories' names alone.
    texts = [text for path in (folder / "out").glob("**/[!.]*.json") for text in path.read_text().splitlines()]
    written = sorted((json.loads(text) for text in texts), key=lambda row: int(row.get("id", 0)))
    if bool(error) != bool(line.error) or line.error not in error:
        return f"error {error[-2000:]!r}, not {line.error!r}"
    if line.rows is not None and rows != line.rows:
        return f"rows {rows}, not {line.rows}"
    return "" if written == list(line.written) else f"written {written}, not {line.written}"
