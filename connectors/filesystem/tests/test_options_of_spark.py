"""No option of Spark's own reader and writer of files is unknown: it has its effect, or is refused with advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import BadConfigurationError
from penstock_filesystem import FileSystemConnector
from penstock_filesystem.options._instead import NOT_READ, NOT_WRITTEN

CLASSES = (
    *("catalyst.csv.CSVOptions", "catalyst.json.JSONOptions", "execution.datasources.text.TextOptions"),
    *("execution.datasources.parquet.ParquetOptions", "execution.datasources.orc.OrcOptions"),
    "execution.datasources.FileIndexOptions",
)
#: Those that Spark declares nowhere, from its guides to streaming and to sources of files.
OF_STREAMS = ("maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "maxFileAge", "fileNameOnly", "cleanSource")
OF_STREAMS += ("sourceArchiveDir", "maxCachedFiles", "discardCachedInputRatio", "ignoreCorruptFiles", "path")
OF_WRITERS = ("maxRecordsPerFile", "partitionOverwriteMode", "compression", "path")
#: What is said of the paths that are read means nothing where files are written.
OF_PATHS = {"basepath", "ignoreinvalidpartitionpaths", "ignoremissingfiles", "modifiedafter", "modifiedbefore"}
OF_PATHS |= {"pathglobfilter", "recursivefilelookup"}
SIDES = {
    "source": (FileSystemConnector.source_options, NOT_READ, OF_STREAMS, set()),
    "sink": (FileSystemConnector.sink_options, NOT_WRITTEN, OF_WRITERS, OF_PATHS),
}


def declared_by_spark(spark):
    java = spark._jvm.java.lang
    loader = java.Thread.currentThread().getContextClassLoader()
    names = set()
    for name in CLASSES:
        module = java.Class.forName(f"org.apache.spark.sql.{name}$", True, loader).getField("MODULE$").get(None)
        names |= set(module.getAllOptions().mkString(",").split(","))
    return names


@pytest.mark.spark
@pytest.mark.parametrize("side", SIDES)
def test_every_option_that_spark_declares_is_known(spark, side):
    declared, instead, more, left_out = SIDES[side]
    names = {name.lower() for name in (*declared_by_spark(spark), *more)} - left_out
    assert len(names) > 60
    assert not [name for name in sorted(names) if declared.find(name) is None and name not in declared.instead]
    assert set(declared.instead) == {name.lower() for name in instead}


@pytest.mark.parametrize(
    ("side", "name"), [(side, name) for side, (_, instead, *_) in SIDES.items() for name in instead]
)
def test_it_is_refused_with_advice(side, name):
    declared, instead, *_ = SIDES[side]
    with pytest.raises(BadConfigurationError) as raised:
        declared.parse({"path": "x", "format": "csv", name.upper(): "1"}, owner=f"{side} penstock.filesystem")
    assert str(raised.value) == f"{side} penstock.filesystem has no option '{name.upper()}': {instead[name]}"


def test_they_are_on_the_page():
    page = (Path(__file__).parents[3] / "docs" / "filesystem.md").read_text()
    section = page.partition("## Spark's options that are refused")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    listed = {(use, name.strip("`")): advice for names, use, advice in rows for name in names.split(", ")}
    assert listed == {
        (use, name): advice
        for use, instead in (("reading", NOT_READ), ("writing", NOT_WRITTEN))
        for name, advice in instead.items()
    }
