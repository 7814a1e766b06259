"""Every key of a pipeline file, with what it means: for the reader of files, for its mistakes, and for the page."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FILE", "SECTIONS", "SINK", "SOURCE", "TRANSFORM", "TRIGGER", "VIEW", "WATERMARK", "keys_as_markdown"]

FILE: Mapping[str, str] = {
    "name": "the query's name, in the display and in metrics; default: the file's name",
    "source": "the only source; its view is called `source`",
    "sources": "in place of `source`: a mapping of view to source",
    "transform": "the only step between source and sink; optional",
    "views": "in place of `transform`: a mapping of view to step, in order; each may use those above it",
    "sink": "the only sink",
    "sinks": "in place of `sink`: a mapping of name to sink",
    "commit": "how several sinks get a batch: `together` (default), `each` or `separate`",
    "trigger": "when batches run: `availableNow` reads what is there and ends; without it, batch follows batch",
    "checkpoint": "a directory that stays from run to run; required",
    "spark": "a mapping of Spark's settings, such as `spark.master`",
}
SOURCE: Mapping[str, str] = {
    "format": "any format of Penstock or Spark; required",
    "read": "`stream` (default), or `batch` for a table to look up in",
    "schema": "DDL, such as `id long, at timestamp`; a stream needs it unless the source knows its schema",
    "options": "a mapping of option to value",
    "flatten": "a struct column, or a list of them: its fields take its place as columns",
    "select": "an SQL expression, or a list of them: the columns to read, after `flatten`; `value.*` takes all fields",
    "watermark": "for how long rows of a stream may be late, by a column as it is after `flatten` and `select`",
}
VIEW: Mapping[str, str] = {
    "sql": "a query over the sources and the views above it; `name: SELECT …` is short for `name: {sql: SELECT …}`",
    "python": "`module:function` or `path/file.py:function`: `function(spark, views)` gets a dictionary of DataFrames, "
    "and returns one",
    "watermark": "as for a source, for a column that the view computes",
}
TRANSFORM: Mapping[str, str] = {name: VIEW[name] for name in ("sql", "python")}
SINK: Mapping[str, str] = {
    "format": "any format of Penstock or Spark; required",
    "from": "a source or a view; default: what the last step makes, or the only source",
    "mode": "`append` (default), `update` or `complete`",
    "options": "a mapping of option to value",
}
WATERMARK: Mapping[str, str] = {
    "column": "a timestamp column at the top level; required",
    "delay": "how late a row may be, such as `10 minutes`; required",
}
TRIGGER: Mapping[str, str] = {"processingTime": "the time from the start of a batch to the next, such as `10 seconds`"}
#: In the order of the page.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "key": FILE,
    "key of a source": SOURCE,
    "key of a view, or of `transform`": VIEW,
    "key of a sink": SINK,
    "key of `watermark`": WATERMARK,
    "key of `trigger`": TRIGGER,
}


def keys_as_markdown() -> str:
    """Returns a table for each part of a file."""
    tables = []
    for title, keys in SECTIONS.items():
        rows = [f"| `{name}` | {text} |" for name, text in keys.items()]
        tables.append("\n".join([f"| {title} | what it is |", "| --- | --- |", *rows]))
    return "\n\n".join(tables) + "\n"
