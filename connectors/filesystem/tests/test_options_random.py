"""Random combinations of the options that carry Spark's name: the rows of Spark's own reader and writer, or a refusal.

What differs on purpose is in ``DIFFERENCES`` and, in the same words, on the page of the connector; each has an example
here that shows both sides. What is drawn keeps clear of it.
"""

from __future__ import annotations

import io
import itertools
import re
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, PenstockError
from penstock_filesystem.formats import WriteOptions, create_writer
from penstock_filesystem.options import SINK_OPTIONS, SOURCE_OPTIONS
from penstock_filesystem.sink.staging import StagedFile

UTC = timezone.utc
SOME = settings(max_examples=30, derandomize=True)
FEW = settings(SOME, max_examples=4)
MANY = settings(SOME, max_examples=500, derandomize=False)
MORE = pytest.mark.exhaustive("ten times as many, and others each time; a few that are always the same stay")

CSV_DDL = (
    "a long, s string, d date, t timestamp, x double, b boolean, m decimal(6,2), p timestamp_ntz, "
    "_corrupt_record string"
)
JSON_DDL = (
    "a long, s string, d date, t timestamp, x double, b boolean, m decimal(6,2), n struct<x:long>, l array<long>, "
    "p timestamp_ntz, "
    "k map<string,long>, e map<string,struct<x:long>>, f array<struct<x:long>>, z binary, _corrupt_record string"
)
#: Values of every option with Spark's name that decides what the rows are.
READ = {
    "csv": {
        "sep": [",", ";", "|", "\t"],
        "delimiter": [";"],
        "quote": ['"', "'", ""],
        "escape": ["\\", '"', "^", ""],
        "comment": ["#", "!"],
        "nullValue": ["NA", "-", "x"],
        "emptyValue": ["E", "NA"],
        "nanValue": ["nan", "1.5"],
        "positiveInf": ["inf", "x"],
        "negativeInf": ["-", "-inf"],
        "header": ["true"],
        "enforceSchema": ["false"],
        "ignoreLeadingWhiteSpace": ["true"],
        "ignoreTrailingWhiteSpace": ["true"],
        "inferSchema": ["true"],
        "samplingRatio": ["1.0"],  # of less, each side draws rows of its own: test_inference.py
        "dateFormat": ["dd.MM.yyyy", "yyyy-MM-dd", "M/d/yyyy"],
        "timestampFormat": ["dd.MM.yyyy HH:mm", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ssXXX"],
        "timestampNTZFormat": ["dd.MM.yyyy HH:mm", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ssXXX"],
        "timeZone": ["Europe/Berlin", "America/New_York"],
        "lineSep": ["\n", ";", "|", "\r\n", "##"],
        "multiLine": ["true"],
        "encoding": ["UTF-8", "ISO-8859-1"],
        "charset": ["ISO-8859-1"],
        "mode": ["DROPMALFORMED", "FAILFAST", "PERMISSIVE"],
        "columnNameOfCorruptRecord": ["bad"],
    },
    "json": {
        "dateFormat": ["dd.MM.yyyy", "yyyy-MM-dd"],
        "timestampFormat": ["dd.MM.yyyy HH:mm", "yyyy-MM-dd'T'HH:mm:ssXXX"],
        "timestampNTZFormat": ["dd.MM.yyyy HH:mm", "yyyy-MM-dd HH:mm:ss"],
        "timeZone": ["Europe/Berlin"],
        "lineSep": ["\n", ";", "\r\n", "##"],
        "multiLine": ["true"],
        "encoding": ["UTF-8"],
        "samplingRatio": ["1.0"],
        "mode": ["DROPMALFORMED", "FAILFAST", "PERMISSIVE"],
        "columnNameOfCorruptRecord": ["bad"],
        "allowSingleQuotes": ["false", "true"],
        "allowNonNumericNumbers": ["false", "true"],
        "allowComments": ["true"],
        "allowUnquotedFieldNames": ["true"],
        "allowNumericLeadingZeros": ["true"],
        "allowBackslashEscapingAnyCharacter": ["true"],
        "allowUnquotedControlChars": ["true"],
        "primitivesAsString": ["true"],
        "prefersDecimal": ["true"],
        "dropFieldIfAllNull": ["true"],
    },
    "text": {"lineSep": ["\n", ";", "\r\n", "##"], "wholetext": ["true"], "encoding": ["UTF-8"]},
    "parquet": {"mergeSchema": ["true"]},
    "orc": {"mergeSchema": ["true"]},
}
#: Of every format: which files are read.
FILES = {
    "pathGlobFilter": ["a*", "*.b", "[ab]*"],
    "modifiedAfter": ["2000-01-01", "2020-02-29T12:00:00+01:00"],
    "modifiedBefore": ["2100-01-01 12:00:00"],
    "recursiveFileLookup": ["true", "false"],
    "ignoreCorruptFiles": ["true"],
    "ignoreMissingFiles": ["true"],
}
WRITE = {
    "csv": {
        "sep": [";", "|", "\t", "^"],
        "delimiter": [";"],
        "quote": ["'", "|"],
        "escape": ['"', "^", "'"],
        "quoteAll": ["true"],
        "nullValue": ["NA", "-"],
        "emptyValue": ["E", ""],
        "header": ["true"],
        "dateFormat": ["dd.MM.yyyy", "M/d/yyyy"],
        "timestampFormat": ["dd.MM.yyyy HH:mm:ss.SSSSSS", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"],
        "timestampNTZFormat": ["dd.MM.yyyy HH:mm:ss.SSSSSS"],
        "lineSep": ["\r\n", ";", "##", "|"],
        "compression": ["gzip", "none"],
    },
    "json": {
        "ignoreNullFields": ["false"],
        "dateFormat": ["dd.MM.yyyy"],
        "timestampFormat": ["dd.MM.yyyy HH:mm:ss.SSSSSS", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"],
        "timestampNTZFormat": ["dd.MM.yyyy HH:mm:ss.SSSSSS"],
        "lineSep": ["\r\n", ";", "##"],
        "compression": ["gzip", "none"],
    },
    "text": {"lineSep": ["\r\n", ";", "##"], "compression": ["gzip", "none"]},
    "parquet": {"compression": ["gzip", "snappy", "zstd", "none"]},
    "orc": {"compression": ["zlib", "snappy", "zstd", "lz4", "none"]},
}
#: What the writer alone takes. Some of it Spark's reader takes as well, and does nothing with.
WRITE_ONLY = {"compression", "quoteAll", "ignoreNullFields"}
#: Options with Spark's name that are not drawn here, with the test that says the same of them.
ELSEWHERE = {
    "badRecords": "drawn as mode",
    "badRecordColumn": "drawn as columnNameOfCorruptRecord",
    "maxFilesPerTrigger": "test_source_enumerator.py",
    "maxBytesPerTrigger": "test_source_enumerator.py",
    "cleanSource": "test_source_policies.py",
    "sourceArchiveDir": "test_source_policies.py",
    "path": "every test",
    "maxColumns": "DIFFERENCES",
    "maxCharsPerColumn": "DIFFERENCES",
    "checkpointLocation": "Spark's is the writer's",
}


@dataclass(frozen=True)
class Case:
    """Files of one format below a directory, and options to read them with."""

    format: str
    options: dict[str, str]
    files: dict[str, bytes]
    ddl: str | None


def drawn_options(values, most=4):
    """Some of the options with one of their values each."""
    names = st.lists(st.sampled_from(sorted(values)), unique=True, max_size=most)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: st.sampled_from(values[name]) for name in chosen}))


CELLS = {
    "a": ["1", "-7", "", "x", "1.0", "+3", "9223372036854775808", " 5", "6 "],
    "s": [
        "x",
        "",
        "NA",
        " lead",
        "trail ",
        "é",
        "a,b",
        "it's",
        "tab\there",
        "#c",
        "-",
        "E",
        " ",
        'q"q',
        "\\",
        "a\\",
        '"',
        "a;b",
        "a|b",
        "''",
        '""',
        'a\\"b',
        "two\nlines",
        "^",
        "a##b",
    ],
    "d": [
        "2025-12-31",
        "0001-01-01",
        "2024-02-29",
        "2025-02-30",
        "31.12.2025",
        "12/3/2025",
        "2025-1-1",
        "x",
        "",
        " 2025-12-31",
        "2025",
        "2025-12",
    ],
    "t": [
        "2025-12-31 10:00:00",
        "2025-12-31T10:00:00Z",
        "2025-12-31",
        "2025-12-31 10:00:00.123456",
        "x",
        "",
        "31.12.2025 10:00",
        "2025-12-31T10:00:00+02:00",
        "1890-12-31T10:00:00+05:41:16",
        "2025-12-31T10:00:00 Asia/Tokyo",
        " 2025-12-31 10:00:00",
        "2025",
        "2025-12",
    ],
    "x": ["1.5", "1e3", "NaN", "Infinity", "-Infinity", "", "-0.0", "x", "1", " 2.5", "1d", "inf", "Inf", "nan", ".5"],
    "b": ["true", "FALSE", "", "x", "True", "0", " true"],
    "m": ["1.25", "1.255", "12345", "", "x", "-0.5", "1e2", " 1.25", "1.25 ", "+1", "NaN"],
}
CELLS["p"] = CELLS["t"]
#: Of inferred columns: what a type is guessed from. Years and times alone are guessed otherwise, see DIFFERENCES.
INFERRED = ["1", "-7", "+1", "1.5", "1e3", "NaN", " 1", "1 ", "99999999999", "99999999999999999999", "true", "FALSE"]
INFERRED += ["2020-01-01", "2020-01-02 10:00:00", "x", "", "NA"]


@st.composite
def csv_cases(draw):
    options = draw(drawn_options(READ["csv"]))
    infers = "inferSchema" in options
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    sep = options.get("sep", options.get("delimiter", ","))
    end = options.get("lineSep") or draw(st.sampled_from(["\n", "\n", "\r\n"]))
    multi_line = "multiLine" in options

    def cell(text):
        if escape == "":  # a doubled quote would be the only way to write one
            text = text.replace(quote or '"', "")
        if not multi_line or "encoding" in options:
            text = text.replace("\n", "")
        if not quote:
            return text.replace(sep, "").replace(end, "").replace("\n", "")
        special = any(part in text for part in (sep, quote, end[0], "\n")) or text == ""
        if not draw(st.sampled_from([special, special, True])) or (escape == "" and text == ""):
            return text
        if escape and escape != quote:
            text = text.replace(escape, escape * 2)
        return f"{quote}{text.replace(quote, (escape or quote) + quote)}{quote}"

    names = list(CELLS)
    width = draw(st.integers(1, 3)) if infers else len(names)
    lines = [sep.join(names[:width])] if "header" in options else []
    for _ in range(draw(st.integers(1, 4))):
        row = [draw(st.sampled_from(INFERRED if infers else CELLS[name])) for name in names[:width]]
        row = draw(st.sampled_from([row] * 8 + [row[:-1] or row, [*row, "more"]]))
        lines.append(sep.join(map(cell, row)))
        lines += draw(st.sampled_from([[]] * 8 + [[""], ["   "], [f"{options.get('comment', '#')} said"]]))
    text = end.join(lines) + draw(st.sampled_from([end, ""]))
    ddl = CSV_DDL.replace("_corrupt_record", options.get("columnNameOfCorruptRecord", "_corrupt_record"))
    encoding = options.get("charset", options.get("encoding", "UTF-8"))
    return Case("csv", options, {"a.csv": text.encode(encoding, "replace")}, None if infers else ddl)


SCALARS = ["1", "-7", "1.0", "1e3", "1.5", '"x"', '""', "true", "null", '"2025-12-31"', '"2025-12-31 10:00:00"', "0.1"]
SCALARS += ['"2025-12-31T10:00:00Z"', '"31.12.2025"', '"31.12.2025 10:00"', '"é"', '"a\\nb"', '"NaN"', '"Infinity"']
SCALARS += ["-0", "99999999999999999999", "1577836800"]
SCALARS += ['"\\ud83d\\ude00"', '"true"', '"2025-1-1"', '" "', "[]", "[1,2]", "{}"]
SCALARS += ['{"x":1}', '{"x":"q"}', '[null,"x"]', '[{"x":"q"},{"x":1}]', "[1e3]", '{"y":{"x":"q"}}', '{"y":{"x":7}}']
#: What only options allow, or do not forbid.
SCALARS += ["NaN", "+INF", "-Infinity", "007", "-01.5", "'it'", '"\\q"', '"a\tb"', "/* c */ 1", "// c"]
BASE64 = ['"YWI="', '" "', "null", "1"]


@st.composite
def json_cases(draw):
    options = draw(drawn_options(READ["json"]))

    def item(between=(",", ", ")):
        fields = draw(st.lists(st.sampled_from("asdtpxbmnlkefzA"), unique=True, max_size=6))
        texts = [f'"{name}":{draw(st.sampled_from(BASE64 if name == "z" else SCALARS))}' for name in fields]
        return "{" + draw(st.sampled_from(between)).join(texts) + "}"

    def line():
        one = item()
        others = ["bad", "", "  ", one + " x", f"[{one},{item()}]", one[:-1], '"t"', "12", "[]", f" {one} ", "[1]"]
        return draw(st.sampled_from([one] * 20 + [*others, f"[{one},1]", f"[null,{one}]", one + item()]))

    if "multiLine" in options:
        several = ",\n".join(item() for _ in range(draw(st.integers(0, 3))))
        text = draw(st.sampled_from([item(), f"[{several}]", line(), "\n " + item(["\n,"])]))
    else:
        end = options.get("lineSep", "\n")
        lines = [line() for _ in range(draw(st.integers(1, 4)))]
        text = end.join(lines) + draw(st.sampled_from([end, ""]))
    if re.search(r"\d[.e]\d", text):
        options.pop("encoding", None)  # as a string, such a number is another one in Spark then, see DIFFERENCES
    ddl = JSON_DDL.replace("_corrupt_record", options.get("columnNameOfCorruptRecord", "_corrupt_record"))
    return Case("json", options, {"a.json": text.encode()}, draw(st.sampled_from([ddl, ddl.rpartition(",")[0]])))


@st.composite
def text_cases(draw):
    """Text, in files of several names and places."""
    options = draw(drawn_options({**READ["text"], **FILES}))
    pieces = st.lists(st.sampled_from(["a", "é", "\n", "\r\n", "\r", ";", "#", "##", " ", ""]), max_size=8)
    paths = st.sampled_from(["a", "b", "a.b", "_c", ".d", "n/a", "n/e.b", "n/_f"])
    names = draw(st.lists(paths, min_size=1, unique=True))
    texts = {name: "".join(draw(pieces)) or ("x" if "wholetext" in options else "") for name in names}
    return Case("text", options, {name: text.encode() for name, text in texts.items()}, "value string")


def columnar_bytes(format_, columns):
    import pyarrow.orc
    import pyarrow.parquet

    out = io.BytesIO()
    {"parquet": pyarrow.parquet, "orc": pyarrow.orc}[format_].write_table(pa.table(columns), out)
    return out.getvalue()


COLUMNAR = [
    {"a": pa.array([1, None], pa.int32()), "s": pa.array(["x", ""])},
    {"a": pa.array([3], pa.int32()), "t": pa.array([datetime(2025, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))},
    {"s": pa.array(["é"]), "m": pa.array([Decimal("1.25")], pa.decimal128(6, 2)), "l": pa.array([[1, None]])},
    {"n": pa.array([{"x": 1}, None]), "d": pa.array([date(2025, 1, 1), None])},
]


@st.composite
def columnar_cases(draw, format_):
    options = draw(drawn_options({**READ[format_], **FILES}))
    options.pop("ignoreCorruptFiles", None)
    chosen = draw(st.lists(st.sampled_from(range(len(COLUMNAR))), min_size=1, max_size=3, unique=True))
    if "mergeSchema" not in options:
        chosen = chosen[:1]
    made = [columnar_bytes(format_, COLUMNAR[number]) for number in chosen]
    files = dict(zip(["a", "b", "n/a"], made, strict=False))
    ddl = draw(st.sampled_from([None, "a int, s string, t timestamp, x double"]))
    if ddl is not None and str(options.get("mergeSchema")).lower() != "true":
        options["missingColumns"] = "null"  # as Spark; by default we refuse a column that no file has
    return Case(format_, options, files, ddl)


CASES = st.one_of(
    *(csv_cases(), csv_cases(), csv_cases(), json_cases(), json_cases(), text_cases()),
    *(columnar_cases("parquet"), columnar_cases("orc")),
)


def put(case, where):
    """Writes the files. The directory is new: Spark keeps listings and footers."""
    root = Path(where) / uuid.uuid4().hex
    for name, data in case.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def comparable(rows):
    """Rows in an order, their values as text: NaN equals itself, -0.0 is 0.0, and what has names is a dictionary."""

    def value(v):
        if hasattr(v, "asDict"):
            v = v.asDict()
        if isinstance(v, list) and v and all(isinstance(one, tuple) for one in v):
            v = dict(v)  # pyarrow's map
        if isinstance(v, list):
            return [value(one) for one in v]
        if isinstance(v, dict):
            return {name: value(one) for name, one in v.items()} or []
        if isinstance(v, datetime):
            return (v if v.tzinfo else v.astimezone()).timestamp()
        if isinstance(v, bytearray):
            return bytes(v)
        return 0.0 if isinstance(v, float) and v == 0 else v

    return [str([value(one) for one in row]) for row in rows]


def of_spark(spark, case, root):
    """Spark's rows and their schema; None for the rows where it fails."""
    # Nothing is looked up below a directory by default, and here everything is.
    options = {"recursiveFileLookup": "true", **case.options}
    reader = spark.read.options(**options)
    frame = (reader.schema(case.ddl) if case.ddl else reader).format(case.format).load(str(root))
    try:
        return comparable(frame.collect()), frame.schema
    except Exception as error:
        note(f"Spark: {str(error)[:300]}")
        return None, frame.schema


def check_refusal(error, options):
    """The message is short and names an option that was given."""
    assert str(error).count("\n") < 2 and any(name in str(error) for name in options), error


def wide(schema):
    """Whole numbers of inferred columns as we infer them."""
    return [(one.name, pa.int64() if pa.types.is_integer(one.type) else one.type) for one in schema]


def check_reading(spark, harness, case, where):
    """Our rows are Spark's, or the error names an option. Returns the directory, the schema and the rows, if any."""
    from pyspark.sql.pandas.types import to_arrow_schema

    root = put(case, where)
    note(f"{case.format} {case.options} {case.files}")
    try:
        source = harness.source(root, format=case.format, **case.options)
    except BadConfigurationError as error:
        check_refusal(error, case.options)
        return None
    try:
        theirs, spark_schema = of_spark(spark, case, root)
    except Exception as error:  # Spark can't infer a schema
        note(f"Spark: {str(error)[:300]}")
        with pytest.raises(BadConfigurationError):
            source.infer_schema()
        return None
    schema = pa.schema(to_arrow_schema(spark_schema, timezone="UTC"))
    if case.format == "csv" and case.ddl is None:
        inferred = source.infer_schema()
        assert wide(inferred) == wide(schema), "inferred types"
        schema = inferred
    elif case.ddl is None:
        assert sorted(map(str, source.infer_schema())) == sorted(map(str, schema)), "inferred types"
    try:
        ours = comparable(harness.rows(root, schema, format=case.format, **case.options))
    except PenstockError:
        if theirs is not None:
            raise
        return None
    if theirs is None:
        assert case.options.get("mode") != "FAILFAST", "only Spark fails"
        return None  # of its parser's own, by which nothing can be judged
    # Files come in another order; the rows of one file do not.
    assert (sorted(ours) == sorted(theirs)) if len(case.files) > 1 else ours == theirs
    return root, spark_schema, ours


@pytest.mark.spark
@pytest.mark.budget(90)
@pytest.mark.parametrize("profile", [SOME, pytest.param(MANY, marks=MORE)])
def test_reading_is_as_in_spark_or_refused(spark, source_harness, tmp_path, profile):
    @profile
    @given(CASES)
    def holds(case):
        check_reading(spark, source_harness, case, tmp_path)

    holds()


STRIPPED = {"ignoreLeadingWhiteSpace": "true"}
BLANKS = ["1,b{0}   {0}2,b{0}", "  {0}1,b{0}{0} \t {0}2,b", "1,b{0}   ", "1,b{0} , {0}"]
BLANKS = [text.format(end) for text in BLANKS for end in ("\n", "\r\n")]
BLANKS += ['1,b\n"  "\n2,b\n', '1,b\n  ""\n2,b\n', '1,"b\n  \nc"\n2,b\n']


@pytest.mark.spark
@pytest.mark.budget(20)
@pytest.mark.parametrize("options", [{}, STRIPPED, {**STRIPPED, "header": "true"}, {**STRIPPED, "sep": "\t"}], ids=str)
def test_rows_of_blanks(spark, source_harness, tmp_path, options):
    """They are rows where they are in Spark: there, that depends on what is stripped, and on where they are."""

    @SOME
    @given(st.sampled_from(BLANKS), st.booleans())
    def holds(text, multi_line):
        case = Case("csv", {**options, "multiLine": str(multi_line)}, {"a.csv": text.encode()}, "a long, b string")
        check_reading(spark, source_harness, case, tmp_path)

    holds()


NUMBERS = ["NaN", "+NaN", "nan", " NaN", "Inf", "-Inf", " Inf", "Inf ", "inf", "+Inf", "Infinity", "-Infinity", " 1d "]
NUMBERS += [" Infinity ", "1.5", "-9999", "-9999.0", "-", "x", "-x", "", '"Inf"', '""', "+1"]
OWN = {"nanValue": "-", "positiveInf": "x", "negativeInf": "-x"}


@pytest.mark.spark
@pytest.mark.budget(20)
@pytest.mark.parametrize(
    "options",
    [{}, {"nanValue": "-9999"}, OWN, {"nanValue": "Inf", "positiveInf": "NaN"}, {**OWN, **STRIPPED, "nullValue": "x"}],
    ids=str,
)
def test_numbers_that_are_not_finite(spark, source_harness, tmp_path, options):
    """Whether a block holds only what Arrow's parser takes, or each cell is looked at; with a schema or without."""

    @settings(SOME, max_examples=12)
    @given(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=4), st.sampled_from(["x double", "x float", None]))
    @example(["Inf", "-Inf"], None)
    def holds(numbers, ddl):
        text = "".join(f"{number},a\n" for number in numbers)
        given = options if ddl else {**options, "inferSchema": "true"}
        ddl = ddl and f"{ddl}, s string, _corrupt_record string"
        check_reading(spark, source_harness, Case("csv", given, {"a.csv": text.encode()}, ddl), tmp_path)

    holds()


@pytest.mark.spark
@pytest.mark.budget(90)
@pytest.mark.parametrize("profile", [FEW, pytest.param(settings(MANY, max_examples=50), marks=MORE)])
def test_a_batch_and_a_stream_read_the_same(spark, source_harness, tmp_path, profile):
    """The whole way through Spark: what our source reads there is what it reads here, which is what Spark reads."""

    @profile
    @given(CASES.filter(lambda case: case.ddl is not None and "FAILFAST" not in case.options.values()))
    def holds(case):
        checked = check_reading(spark, source_harness, case, tmp_path)
        if checked is None:
            return
        root, schema, rows = checked
        options = {"format": case.format, **case.options}
        batch = spark.read.format("penstock.filesystem").schema(schema).options(**options).load(str(root))
        assert sorted(comparable(batch.collect())) == sorted(rows)
        name = f"t{uuid.uuid4().hex}"
        stream = spark.readStream.format("penstock.filesystem").schema(schema).options(**options).load(str(root))
        written = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        query = written.option("checkpointLocation", str(root) + "-checkpoint").start()
        query.awaitTermination()
        assert sorted(comparable(spark.table(name).collect())) == sorted(rows)

    holds()


VALUES = st.tuples(
    st.sampled_from([1, -7, None, 2**63 - 1]),
    st.sampled_from([*CELLS["s"], "x^", 'a","b', "^'", '"a"', "\\,", "😀", None]),
    st.sampled_from([date(2025, 12, 31), date(1, 1, 1), date(2024, 2, 29), None]),
    st.sampled_from([datetime(2025, 12, 31, 10, 0, 0, 123456, UTC), datetime(1970, 1, 1, tzinfo=UTC), None]),
    st.sampled_from([1.5, float("nan"), float("-inf"), -0.0, 1e20, 100.0, 0.1, 1e-7, None]),
    st.sampled_from([True, False, None]),
    st.sampled_from([Decimal("1.25"), Decimal("-0.50"), None]),
    st.sampled_from([datetime(2025, 12, 31, 10, 0, 0, 123000), datetime(1900, 1, 1), None]),
)
WRITE_DDL = "a long, s string, d date, t timestamp, x double, b boolean, m decimal(6,2), p timestamp_ntz"


@st.composite
def written_cases(draw):
    """A format, options of the writer, and rows."""
    name = draw(st.sampled_from(["csv", "csv", "csv", "json", "text", "parquet", "orc"]))
    rows = draw(st.lists(VALUES, min_size=1, max_size=3))
    return name, draw(drawn_options(WRITE[name])), [row[1:2] for row in rows] if name == "text" else rows


def our_file(format_, options, schema, rows):
    """The bytes of a file that our writer makes, and its extension. Raises BadConfigurationError."""
    values = SINK_OPTIONS.parse({"path": "x", "format": format_, **options}, owner="sink", mode="batch")
    writer = create_writer(schema, WriteOptions.from_values(values))
    writer.validate()
    stream = io.BytesIO()
    encoder = writer.encoder(StagedFile("", stream), "q")
    encoder.write(pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))
    encoder.finish()
    return stream.getvalue(), writer.extension


@pytest.mark.spark
@pytest.mark.budget(120)
@pytest.mark.parametrize("profile", [SOME, pytest.param(MANY, marks=MORE)])
def test_what_one_writes_the_other_reads(spark, source_harness, tmp_path, profile):
    """Ours read by Spark, and Spark's read by us; and both are the same rows, whoever wrote and whoever reads."""
    from pyspark.sql.pandas.types import to_arrow_schema

    @profile
    @given(written_cases())
    def holds(case):
        format_, options, rows = case
        note(f"{format_} {options} {rows}")
        frame = spark.createDataFrame(rows, "value string" if format_ == "text" else WRITE_DDL).coalesce(1)
        schema = pa.schema(to_arrow_schema(frame.schema, timezone="UTC"))
        reading = {name: text for name, text in options.items() if name not in WRITE_ONLY}
        if format_ == "csv" and "lineSep" not in options:
            reading["multiLine"] = "true"
        root = tmp_path / uuid.uuid4().hex
        (root / "ours").mkdir(parents=True)
        try:
            data, extension = our_file(format_, options, schema, rows)
        except BadConfigurationError as error:
            check_refusal(error, options)
            return
        (root / "ours" / f"part{extension}").write_bytes(data)
        # Spark strips cells that it writes, unless it is told not to.
        kept = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"} if format_ == "csv" else {}
        frame.write.options(**options, **kept).format(format_).save(str(root / "spark"))
        seen = {}
        for writer in ("ours", "spark"):
            where = str(root / writer)
            seen[writer, "spark"] = spark.read.schema(frame.schema).options(**reading).format(format_).load(where)
            seen[writer, "spark"] = comparable(seen[writer, "spark"].collect())
            try:
                seen[writer, "ours"] = comparable(source_harness.rows(where, schema, format=format_, **reading))
            except BadConfigurationError as error:
                check_refusal(error, reading)
                return
            assert seen[writer, "ours"] == seen[writer, "spark"], f"written by {writer}"
        # Spark writes \n in a cell as \r\n then, which both readers take for the end of a row.
        is_cut = format_ == "csv" and options.get("lineSep") == "\r\n" and any("\n" in (row[1] or "") for row in rows)
        if "timestampFormat" in options and "quoteAll" not in options and not is_cut:
            assert seen["ours", "ours"] == seen["spark", "spark"], "written by one and by the other"

    holds()


@dataclass(frozen=True)
class Difference:
    """One row of the page's table: what, and an example of it. ``None`` for rows: an error."""

    what: str
    format: str
    data: bytes
    ours: list[tuple[object, ...]] | None
    theirs: list[tuple[object, ...]] | None
    ddl: str | None = "s string, t string"
    options: dict[str, str] = field(default_factory=dict)


DIFFERENCES = [
    Difference("doubled quotes in a quoted CSV cell", "csv", b'"a""b",c\n', [('a"b', "c")], [('"a""b"', "c")]),
    Difference("text after a closing quote", "csv", b'a,"b"c\n', [("a", "bc")], [("a", '"b"c')]),
    Difference(
        "a CSV row with bytes that are not of the encoding",
        "csv",
        b"a,\xff\nb,c\n",
        [("b", "c")],
        [("a", "\ufffd"), ("b", "c")],
        options={"mode": "DROPMALFORMED"},
    ),
    Difference(
        "line ends in quoted CSV cells (`multiLine`)",
        "csv",
        b'"a\r\nb",c\r\n',
        [("a\r\nb", "c")],
        [("a\nb", "c")],
        options={"multiLine": "true"},
    ),
    Difference(
        "`lineSep` with `multiLine`",
        "csv",
        b"a,b;c,d;",
        None,
        [("a", "b"), ("c", "d")],
        options={"lineSep": ";", "multiLine": "true"},
    ),
    Difference("a separator of several characters", "csv", b"a||b\n", None, [("a", "b")], options={"sep": "||"}),
    Difference(
        "a CSV row of more columns than `maxColumns`",
        *("csv", b"a,b,c\n", [("a", "b", "c")], None, "s string, t string, u string", {"maxColumns": "2"}),
    ),
    Difference(
        "a CSV cell of more characters than `maxCharsPerColumn`",
        *("csv", b"abcd,b\n", [("abcd", "b")], None),
        options={"maxCharsPerColumn": "3"},
    ),
    Difference("hexadecimal whole numbers in CSV", "csv", b"0x10,b\n", [(16, "b")], [(None, "b")], "s long, t string"),
    Difference(
        "types of inferred CSV columns: whole numbers",
        "csv",
        b"1\n2\n",
        [("int64",)],
        [("int",)],
        None,
        {"inferSchema": "true"},
    ),
    Difference(
        "types of inferred CSV columns: times without a date",
        "csv",
        b"12:00\n",
        [("string",)],
        [("timestamp",)],
        None,
        {"inferSchema": "true"},
    ),
    Difference("an empty text file with `wholetext`", "text", b"", [("",)], [], "value string", {"wholetext": "true"}),
    Difference(
        "a JSON object or array that is read as a string",
        "json",
        b"{\"s\":{'x': [1 ]}}\n",
        [('{"x":[1]}', None)],
        [("{'x': [1 ]}", None)],
    ),
    Difference(
        "a JSON number that is read as a string, with `encoding`",
        "json",
        b'{"s":1.50,"t":1e3}\n',
        [("1.50", "1e3")],
        [("1.5", "1000.0")],
        options={"encoding": "UTF-8"},
    ),
    Difference(
        "half of a surrogate pair in JSON (`\\ud83d` alone)",
        "json",
        b'{"s":"a\\ud83d","t":"x"}\n',
        [(None, "x")],
        [("a?", "x")],
    ),
    Difference(
        "a JSON text that is not base64, for a binary column",
        "json",
        b'{"b":"x","s":"x"}\n',
        [(None, "x")],
        [(None, None)],
        "b binary, s string",
    ),
    Difference(
        "a JSON text that is a whole number, for a date column",
        "json",
        b'{"d":"1","s":"x"}\n',
        [(None, "x")],
        [(date(1970, 1, 2), "x")],
        "d date, s string",
    ),
    Difference(
        "JSON in another encoding than UTF-8, without `lineSep`",
        "json",
        '{"s":"é"}\n'.encode("latin-1"),
        [("é", None)],
        None,
        options={"encoding": "ISO-8859-1"},
    ),
    Difference(
        "`encoding` of text files",
        "text",
        "é\n".encode("latin-1"),
        [("é",)],
        [("\ufffd",)],
        "value string",
        {"encoding": "ISO-8859-1"},
    ),
    Difference(
        "CSV and text in UTF-16",
        "csv",
        "a,b\nc,d\n".encode("utf-16"),
        [("a", "b"), ("c", "d")],
        [("a", "b"), ("c", "d\ufffd"), ("\ufffd", None)],
        options={"encoding": "UTF-16"},
    ),
    Difference(
        "line ends of several kinds in one CSV file (`multiLine`)",
        "csv",
        b"1\r2\r\n3\n\r4",
        [("1",), ("2",), ("3",), ("4",)],
        [("1",), ("2",), ("3\n",), ("4",)],
        "s string",
        {"multiLine": "true"},
    ),
    Difference(
        "a line feed at the end of a CSV row, with a `lineSep` that begins with `\\r`",
        "csv",
        b"a,b\n\r\nc,d\r\n",
        [("a", "b\n"), ("c", "d")],
        [("a", "b"), ("c", "d")],
        options={"lineSep": "\r\n"},
    ),
    Difference(
        "a CSV file that holds a byte order mark alone (`multiLine`)",
        "csv",
        b"\xef\xbb\xbf",
        [],
        [("\0", None)],
        options={"multiLine": "true"},
    ),
    Difference(
        "a byte order mark of UTF-8 in CSV of another `encoding` (`multiLine`)",
        "csv",
        b"\xef\xbb\xbfa,\xe9\n",
        [("a", "é")],
        [("ï»¿a", "é")],
        options={"multiLine": "true", "encoding": "ISO-8859-1"},
    ),
    Difference(
        "a byte order mark in JSON, with `encoding` and `multiLine`",
        "json",
        b'\xef\xbb\xbf{"s":"x","t":"y"}',
        [("x", "y")],
        [(None, None)],
        options={"multiLine": "true", "encoding": "UTF-8"},
    ),
    Difference(
        "JSON in UTF-16 or UTF-32 without `encoding`",
        "json",
        '{"s":"x","t":"y"}'.encode("utf-16"),
        [(None, None)],
        [("x", "y")],
        options={"multiLine": "true"},
    ),
    Difference(
        "JSON with bytes that are not of the encoding (`multiLine`)",
        "json",
        b'{"s":"\xe9","t":"y"}',
        [("\ufffd", "y")],
        [(None, "y")],
        options={"multiLine": "true"},
    ),
]


@pytest.mark.spark
@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: re.sub(r"\W+", "-", one.what))
def test_the_differences_are_as_the_page_says(spark, source_harness, tmp_path, one):
    """If this fails, a difference has gone, or has become another: the page and this list say so then."""
    from pyspark.sql.pandas.types import to_arrow_schema

    root = put(Case(one.format, one.options, {"a": one.data}, one.ddl), tmp_path)
    reader = spark.read.options(**one.options)
    if one.ddl is None:
        frame = reader.format(one.format).load(str(root))
        schema = source_harness.source(root, format=one.format, **one.options).infer_schema()
        assert [tuple(map(str, schema.types))] == one.ours
        assert [tuple(column.dataType.simpleString() for column in frame.schema)] == one.theirs
        return

    def theirs():
        return [tuple(row) for row in reader.schema(one.ddl).format(one.format).load(str(root)).collect()]

    schema = pa.schema(to_arrow_schema(spark.createDataFrame([], one.ddl).schema, timezone="UTC"))
    if one.ours is None:
        with pytest.raises(BadConfigurationError) as refusal:
            source_harness.rows(root, schema, format=one.format, **one.options)
        check_refusal(refusal.value, one.options)
    else:
        assert source_harness.rows(root, schema, format=one.format, **one.options) == one.ours
    if one.theirs is None:
        is_too_large = not one.options.keys().isdisjoint({"maxColumns", "maxCharsPerColumn"})
        with pytest.raises(Exception, match="FAILED_READ_FILE" if is_too_large else "lineSep"):
            theirs()
    else:
        assert theirs() == one.theirs


#: Differences that are no matter of one file's rows, with the test that shows them.
SHOWN_ELSEWHERE = {
    "directories below the path": "test_hourly_buckets_need_recursive_file_lookup",
    "a hidden file that the path names": "test_names_and_globs_as_spark_takes_them",
    "directories called `_metadata` or `_common_metadata`": "test_names_and_globs_as_spark_takes_them",
    "a symbolic link to a directory above it": "test_links_to_a_directory_that_they_are_in_are_not_followed",
    "a file next to directories `name=value`": "test_a_file_outside_the_directories_has_not_got_their_columns",
    "directories `name=value` in several other ones (`x/a=1`, `y/a=2`)": "test_which_directories_count",
    "columns of directories in your own schema": "test_the_schema_decides_the_types",
    "a number in the name of a directory that is too large for its column": (
        "test_a_name_that_does_not_fit_the_schema_is_an_error"
    ),
    "settings of the session, such as `spark.sql.sources.partitionColumnTypeInference.enabled`, "
    "`spark.sql.timestampType`, `spark.sql.caseSensitive` and `spark.sql.session.timeZone`": (
        "test_settings_of_the_session_do_not_decide_types"
    ),
    "a column of which all directories are null": "test_types_are_those_that_spark_infers",
    "a column that a Parquet, ORC or Avro file lacks": "test_parquet_columns_by_name",
    "`quoteAll`, and null without a `nullValue`": "test_what_stands_for_null_and_for_empty",
    "intervals in Parquet, ORC and Avro": "test_every_type_that_spark_writes",
    "timestamps in ORC files": "test_a_file_of_another_zone",
    "days before 1582-10-15 in ORC files that the library in C++ has written": "test_days_of_the_library_in_cpp",
    "days before 1582-10-15 in Parquet and Avro files of Spark 2, or of the rebase mode `LEGACY`": (
        "test_which_values_are_refused_in_parquet"
    ),
    "variants in Parquet": "test_variants_are_structs",
    "files that end with `.xz`, or with `.zip`, `.7z`, `.rar`, `.br` or `.lzo`": "test_what_can_not_be_decompressed",
    "a compressed file that ends too early, with `ignoreCorruptFiles`": "test_rows_before_the_end_of_a_file_cut_off",
    "columns of ORC files all called `_col0`, `_col1` and so on": "test_columns_without_names_of_their_own",
    "a timestamp without a date": "test_times_in_every_form",
    "a time zone after a time without seconds; an offset of more than 18 hours": "test_times_in_every_form",
    "`modifiedAfter` and `modifiedBefore` that name a zone": "test_times_of_files_as_spark_takes_them",
    "timestamps that are written without a `timestampFormat` or `timestampNTZFormat`": "test_csv_as_the_options_say",
}


def test_the_page_lists_the_differences():
    page = (Path(__file__).parents[3] / "docs" / "filesystem.md").read_text()
    section = page.partition("## Differences from Spark")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)[2:]
    assert sorted(listed) == sorted([*(one.what for one in DIFFERENCES), *SHOWN_ELSEWHERE])
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert all(f"def {name}(" in tests for name in SHOWN_ELSEWHERE.values())


@pytest.mark.spark
def test_every_option_with_the_name_of_one_of_sparks_is_drawn(spark):
    """Spark itself says which options it has."""
    catalyst, engine = spark._jvm.org.apache.spark.sql.catalyst, spark._jvm.org.apache.spark.sql.execution
    declaring = {
        "csv": catalyst.csv.CSVOptions,
        "json": catalyst.json.JSONOptions,
        "text": engine.datasources.text.TextOptions,
        "parquet": engine.datasources.parquet.ParquetOptions,
        "orc": engine.datasources.orc.OrcOptions,
    }
    common = {*FILES, "maxFilesPerTrigger", "maxBytesPerTrigger", "cleanSource", "sourceArchiveDir", "path"}
    sides = [(SOURCE_OPTIONS, READ, FILES), (SINK_OPTIONS, WRITE, {})]
    for (format_, owner), (declared, drawn, more) in itertools.product(declaring.items(), sides):
        names = owner.getAllOptions().mkString(",").split(",")
        for name in {*names, *common}:
            option = declared.find(name)
            if option is None or option.is_prefix:
                continue
            takes = {value for need in option.needs if not isinstance(need, tuple) for value in need.values}
            of_format = not takes or format_ in takes or not any(n.option == "format" for n in option.conditions)
            known = {*drawn[format_], *more, *(ELSEWHERE if declared is SOURCE_OPTIONS else {"path"})}
            if of_format:
                assert {name, *option.names} & known, f"{format_}: {name} is an option of Spark's and is not drawn"
