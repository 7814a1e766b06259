"""Each use of the connector, batches and streams, reads each option that is declared to take effect in it."""

from __future__ import annotations

import datetime
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from option_tests.declared import check_uses
from penstock.errors import BadConfigurationError
from penstock.options import _set as option_set
from penstock.spark._data_source import data_source_of
from penstock_filesystem.options import SINK_OPTIONS, SOURCE_OPTIONS
from suite.option_cases import SCHEMA
from suite.option_uses import OptionUses, Scene

READ = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("l", pa.timestamp("us")),
        ("q", pa.string()),
    ]
)
WRITTEN = SCHEMA.append(pa.field("l", pa.timestamp("us")))
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone.utc)
VALUES = {"n": [1, 2], "s": ["a", ""], "key": ["k", "l"], "value": ["a", "b"], "p": ["c", "u"], "at": [NOON, NOON]}
VALUES["l"] = [datetime.datetime(2024, 1, 1, 12)] * 2
TEXT = {
    "csv": "n,s,d,t,l\n1,a,2024-01-02,2024-01-02T03:04:05,2024-01-02T03:04:05\nbad,b,c,d,e\n",
    "json": '{"n": 1, "s": "a", "d": "2024-01-02", "t": "2024-01-02T03:04:05", "l": "2024-01-02T03:04:05"}\n'
    '{"n": "bad", "t": "x"}\n'
    '{"s": "\\q"}\n{"n"\n',
    "text": "1\n2\n",
}


def rows_of(schema):
    return pa.record_batch([pa.array(VALUES[field.name], field.type) for field in schema], schema=schema)


def put(folder, file_format, text=None):
    """One more file of the format, which lacks some of the columns where the format names them; or of ``text``."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / uuid.uuid4().hex
    if file_format == "parquet" and text is None:
        pq.write_table(pa.Table.from_batches([rows_of(pa.schema([READ.field("n"), READ.field("s")]))]), file)
    else:
        file.write_text(text or TEXT.get(file_format, "abcdef"))
    return file


#: What else an option needs to be read: other options, and what the files hold.
BESIDE = {"ignoreCorruptFiles": {"format": "parquet"}, "cleanSource": {"cleanSource": "delete"}}
HELD = {"ignoreCorruptFiles": "no parquet", "enforceSchema": "other,s,d,t,l\n1,a,,,\n"}


def scene_of_source(option, given):
    place = Path.cwd() / uuid.uuid4().hex
    texts = {name: text.replace("/in", f"{place}/in").replace("/other", f"{place}/in") for name, text in given.items()}
    texts |= {"retryTimeout": "0", **BESIDE.get(option.name, {})}
    if option.name == "cleanSource":
        del texts["sourceArchiveDir"]
    if "schemaLocation" in texts:
        texts["schemaLocation"] = f"{place}/schema"
    if option.name == "path":
        put(Path("x"), texts["format"])
    files = []

    def add():
        files.append(put(place / "in" / "q=2024-01-02", texts["format"], HELD.get(option.name)))

    def change():
        if option.name == "changedFiles":
            files[-1].write_text("1\n")
        if option.name == "ignoreMissingFiles":
            files[-1].unlink(missing_ok=True)

    add()
    return Scene(texts, schema_of(option, texts), (), add, change)


def schema_of(option, texts):
    """What the user gives, if anything."""
    if texts["format"] == "text":
        return pa.schema([("value", pa.string())])
    if option.infers or "schemaLocation" in texts or texts["format"] not in ("csv", "json", "parquet"):
        return None
    return READ.append(pa.field(texts["rescuedDataColumn"], pa.string())) if "rescuedDataColumn" in texts else READ


def scene_of_sink(_, given):
    texts = {**given, "path": given["path"].replace("/out", str(Path.cwd() / uuid.uuid4().hex))}
    own = ":" in texts.get("format", "")
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())]) if own else WRITTEN
    if texts.get("format") == "text":
        schema = pa.schema([("value", pa.string())])
    return Scene(texts, schema, (rows_of(schema),))


def warnings_of(caplog, act):
    caplog.clear()
    act()
    return [record.getMessage() for record in caplog.records if "ignores" in record.getMessage()]


@pytest.mark.parametrize("kind", ["reader", "streamReader"])
def test_what_infers_a_schema_is_warned_of_where_one_is_given(tmp_path, caplog, monkeypatch, kind):
    monkeypatch.setattr(option_set, "_warned", set())
    put(tmp_path / "in", "csv")
    given = {"path": f"{tmp_path}/in", "format": "csv", "inferSchema": "true", "includeMetadata": "true"}
    source = data_source_of("filesystem", parallelism=1, accumulator=None)
    schema = from_arrow_schema(READ.remove(READ.get_field_index("q")))
    assert warnings_of(caplog, lambda: getattr(source(given), kind)(schema)) == [
        "source penstock.filesystem ignores 'includeMetadata', 'inferSchema': each takes effect only where no schema "
        "is given"
    ]
    option_set._warned.clear()
    made = source(given)
    assert warnings_of(caplog, lambda: made.reader(made.schema())) == []


@pytest.mark.parametrize(
    ("option", "why"),
    [("maxColumns", "a row may have any number of columns"), ("maxCharsPerColumn", "a cell may have any length")],
)
def test_limits_of_sparks_that_there_are_not(caplog, monkeypatch, option, why):
    monkeypatch.setattr("penstock.options._set._warned", set())
    given = {"path": "in", "format": "csv", option: "7"}
    assert warnings_of(caplog, lambda: SOURCE_OPTIONS.parse(given, owner="source")) == [
        f"source ignores '{option}': {why}"
    ]
    assert SOURCE_OPTIONS.parse({"path": "in", "format": "csv"}, owner="source")[option] in (20480, -1), (
        "Spark's default"
    )


def test_what_holds_parts_open_is_warned_of_in_a_batch(caplog, monkeypatch):
    """A batch write, and a write in a function of foreachBatch, publish everything."""
    monkeypatch.setattr(option_set, "_warned", set())
    given = {"path": "/out", "rolloverInterval": "1s", "inactivityInterval": "1s", "maxOpenChunks": "2"}
    assert warnings_of(caplog, lambda: SINK_OPTIONS.parse(given, owner="sink", mode="stream")) == []
    assert warnings_of(caplog, lambda: SINK_OPTIONS.parse(given, owner="sink", mode="batch")) == [
        "sink ignores 'rolloverInterval', 'inactivityInterval', 'maxOpenChunks': each takes effect only in a stream, "
        "and this is a batch"
    ]
    for name in ("rolloverInterval", "inactivityInterval", "maxOpenChunks"):
        with pytest.raises(BadConfigurationError, match=f"'{name}' can't be used with rollOnCheckpoint=true"):
            SINK_OPTIONS.parse({"path": "/out", name: "9000", "rollOnCheckpoint": "true"}, owner="sink", mode="stream")


SCENES = {"source": scene_of_source, "sink": scene_of_sink}
#: Of each side options that all uses read.
SOME = {"source": ("sep", "maxSplitBytes"), "sink": ("sep", "partPrefix")}


@pytest.mark.parametrize("side", SCENES)
def test_some_uses_read_some_options(tmp_path, monkeypatch, side):
    monkeypatch.chdir(tmp_path)
    found = OptionUses(f"filesystem {side}", tmp_path, SCENES[side]).found(*SOME[side])
    assert [len(found), *(options for options in found.values())] == [3, *[dict.fromkeys(SOME[side], "read")] * 3]


@pytest.mark.exhaustive("seconds; test_some_uses_read_some_options is the witness")
@pytest.mark.budget(60)
@pytest.mark.parametrize("side", SCENES)
def test_every_use_reads_every_option(tmp_path, monkeypatch, side):
    """Or there is a reason in the table: ``scripts/options --uses`` prints it. ``REWRITE_USES=1`` renews the table."""
    monkeypatch.chdir(tmp_path)
    check_uses(f"filesystem {side}", OptionUses(f"filesystem {side}", tmp_path, SCENES[side]).found())
