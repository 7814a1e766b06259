"""What JSON may hold beyond the standard, and how its types are inferred, by Spark's options; Spark is the oracle."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

OPTIONS = {
    "allowComments": [
        '{"a":1}',
        '/* x */{"a":1}',
        '{"a":/*x*/1}',
        '{"a":1} // t',
        '{"a":"/* in */"}',
        '{"a":1 /* open',
        '{/**/"a"//x',
        '  /*x*/  {"a":2}',
        '{"a":"//"}',
        '{"a":1}/* open',
        '{"a":1} # y',
        '{"a":"x" /*"*/ }',
        '{/*a*/"a"/**/:/**/3}',
    ],
    "allowUnquotedFieldNames": [
        "{a:1}",
        "{ a : 1}",
        "{a-b:1,a:2}",
        "{$a:1,a:3}",
        "{1a:1,a:2}",
        "{é:1,a:2}",
        "{a b:1}",
        "{a:x}",
        "{a#:1,a:2}",
        '{"b":"c:d",a:1}',
        "{a@b:1,a:2}",
        "{a*:1,a:2}",
        "{a.b:1,a:2}",
        "{a+:1,a:2}",
        "{:1}",
        "{,a:1}",
        "{true:1,a:2}",
        "{null:1,a:2}",
        '{a:{b:1},"c":",d:"}',
        "{中:1,a:5}",
        "{_:1,a:2}",
        "{-a:1,a:2}",
        "{a/b:1,a:2}",
        '{a:"b:c,d:e"}',
        "{'é':1,a:2}",
    ],
    "allowSingleQuotes": ["{'a':1}", "{'a':'x'}", '{"a":"x"}', "{'a':'it\\'s'}", "{'a':\"q\"}", "{'a':'\"'}"],
    "allowNumericLeadingZeros": [
        '{"a":01}',
        '{"a":-007}',
        '{"a":00}',
        '{"a":-00}',
        '{"a":00.5}',
        '{"a":0001e2}',
        '{"a":"01"}',
        '{"a":[01,2]}',
        '{"a":00x}',
        '{"a":01.}',
        '{"a":01-2}',
        '{"a":0_1}',
        '{"a":-0}',
        '{"a":-01.50}',
        '{"a":0}',
        '{"a":1e01}',
        '{"a":10.001}',
        '{"0":01,"a":007}',
    ],
    "allowBackslashEscapingAnyCharacter": [
        '{"a":"\\x"}',
        '{"a":"\\$5"}',
        '{"a":"it\\\'s"}',
        '{"a":"\\u0041\\q"}',
        '{"\\a":1}',
        '{"a":"\\é"}',
        '{"a":"\\U0041"}',
        '{"a":"\\"}',
        '{"a":"\\0"}',
        "{'a':'\\z'}",
        '{"a":"\\u00g0"}',
        '{"a":"x\\\\y"}',
    ],
    "allowUnquotedControlChars": [
        '{"a":"x\ty"}',
        '{"a":"x\x01y"}',
        '{"a":"x\x7fy"}',
        '{"a\t":1,"a":2}',
        "{'a':'x\ty'}",
        '{"a":\x011}',
    ],
    "allowNonNumericNumbers": [
        '{"a":NaN}',
        '{"a":+INF}',
        '{"a":-INF}',
        '{"a":Infinity}',
        '{"a":-Infinity}',
        '{"a":+Infinity}',
        '{"a":INF}',
        '{"a":"NaN"}',
        '{"a":"Infinity"}',
        '{"a":"INF"}',
        '{"a":"-INF"}',
        '{"a":"Inf"}',
        '{"a":nan}',
        '{"a":[NaN]}',
        '{"a":Inf}',
        '{"a":-Inf}',
        '{"zz":-NaN,"a":1}',
        '{"a":-NaN}',
        '{"a":+1}',
        '{"a":"+INF"}',
        '{"a":"+Infinity"}',
        '{"a":"-Infinity"}',
        '{"a":"x NaN"}',
    ],
}
TYPES = {"string": pa.string(), "double": pa.float64(), "bigint": pa.int64()}


def shown(row):
    """Two rows that are shown alike are alike: NaN is not equal to itself, and -0 is 0 for Spark."""
    return repr(tuple(0.0 if value == 0.0 and isinstance(value, float) else value for value in row))


def is_compared(text, type_):
    """An object or a list that is read as a string has blanks and quotes of its own here: docs/filesystem.md."""
    return type_ != "string" or not any(sign in text.replace(" ", "") for sign in (":{", ":["))


def of_spark(spark, path, type_, options):
    frame = spark.read.schema(f"a {type_}, _corrupt_record string").options(**options).json(str(path))
    return [shown(row) for row in frame.coalesce(1).collect()]


def of_ours(source_harness, directory, texts, type_, options):
    """Each text in a file of its own, so that its neighbours do not choose its path; then all of them in one."""
    schema = [("a", TYPES[type_]), ("_corrupt_record", pa.string())]
    found = []
    for number, text in enumerate(texts):
        path = directory / f"{number}.json"
        path.write_text(text + "\n")
        found.append(source_harness.rows(path, schema, format="json", **options))
    together = source_harness.rows(directory / "all.json", schema, format="json", **options)
    assert [shown(row) for rows in found for row in rows] == [shown(row) for row in together]
    return [shown(row) for row in together]


@pytest.mark.spark
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_by_itself(spark, tmp_path, source_harness, option, value, type_):
    texts, options = OPTIONS[option], {option: value}
    (tmp_path / "all.json").write_text("".join(f"{text}\n" for text in texts))
    ours = of_ours(source_harness, tmp_path, texts, type_, options)
    theirs = of_spark(spark, tmp_path / "all.json", type_, options)
    both = [one for one in zip(texts, ours, theirs, strict=True) if is_compared(one[0], type_)]
    assert {text: one for text, one, _ in both} == {text: one for text, _, one in both}


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(8))
def test_options_together(spark, tmp_path, source_harness, seed):
    chosen = random.Random(seed)
    options = {name: chosen.choice(["true", "false"]) for name in OPTIONS if chosen.random() < 0.8}
    texts = [text for one in OPTIONS.values() for text in one]
    chosen.shuffle(texts)
    (tmp_path / "all.json").write_text("".join(f"{text}\n" for text in texts))
    schema = [("a", pa.float64()), ("_corrupt_record", pa.string())]
    ours = [shown(row) for row in source_harness.rows(tmp_path / "all.json", schema, format="json", **options)]
    theirs = of_spark(spark, tmp_path / "all.json", "double", options)
    assert dict(zip(texts, ours, strict=True)) == dict(zip(texts, theirs, strict=True))


COMMENTED = """// a list
{"a": 1} // one
/* nothing */
   // nothing either
{"a": /* two */ 2}

{"a": "//"}
"""


@pytest.mark.spark
@pytest.mark.parametrize("value", ["true", "false"])
def test_a_line_that_holds_a_comment_alone_is_no_row(spark, tmp_path, source_harness, value):
    (tmp_path / "in.json").write_text(COMMENTED)
    schema = [("a", pa.string()), ("_corrupt_record", pa.string())]
    options = {"allowComments": value}
    ours = [shown(row) for row in source_harness.rows(tmp_path / "in.json", schema, format="json", **options)]
    assert ours == of_spark(spark, tmp_path / "in.json", "string", options)


@pytest.mark.spark
def test_a_document_over_several_lines_with_everything(spark, tmp_path, source_harness):
    text = "/* list */ [\n {a: 007, // first\n  'b': NaN},\n {\"a\": 2, /* second */ b: +INF}\n]\n"
    (tmp_path / "in.json").write_text(text)
    options = dict.fromkeys((*OPTIONS, "multiLine"), "true")
    ours = source_harness.rows(tmp_path / "in.json", [("a", pa.int64()), ("b", pa.float64())], format="json", **options)
    frame = spark.read.schema("a bigint, b double").options(**options).json(str(tmp_path / "in.json"))
    assert [shown(row) for row in ours] == [shown(row) for row in frame.collect()]
    assert [row[0] for row in ours] == [7, 2]


VALUES = [
    "1", "1.5", "-2.25", "123456789012345678901", "1e3", "1.0e-3", "true", "null", '""', '"x"', '"12"', '"1.75"', "[]",
    "[null]", "[1]", "[1.5, 2]", '["a", 1]', "{}", '{"x": null}', '{"x": 1}', '{"x": 1.25}', "[{}]", '[{"y": null}]',
    "12345678901234567890123456789012345678.5", "0.00000000000000000000000000000000000000001", "10.50", "99.999",
]  # fmt: skip
INFERS = ("primitivesAsString", "prefersDecimal", "dropFieldIfAllNull")


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(24))
def test_inferred_types_are_sparks(spark, tmp_path, source_harness, seed):
    """Few rows of several fields: each field gets some of the values, in good rows and next to a bad one."""
    chosen = random.Random(seed)
    options = {name: "true" for name in INFERS if chosen.random() < 0.6}
    lines = []
    for _ in range(chosen.choice([1, 2, 4])):
        fields = [f'"{name}": {chosen.choice(VALUES)}' for name in "abcdefgh" if chosen.random() < 0.8]
        lines.append("{" + ", ".join([*fields, '"id": 1']) + "}")
    if chosen.random() < 0.3:
        lines.append("no JSON")
    (tmp_path / "in.json").write_text("".join(f"{line}\n" for line in lines))
    theirs = spark.read.options(**options).json(str(tmp_path / "in.json"))
    ours = source_harness.source(tmp_path / "in.json", format="json", **options).infer_schema()
    from pyspark.sql.pandas.types import from_arrow_schema

    assert from_arrow_schema(ours).simpleString() == theirs.schema.simpleString(), lines


@pytest.mark.parametrize(
    ("option", "types"),
    [
        ("primitivesAsString", ["string", "string", "string", "string"]),
        ("prefersDecimal", ["bool", "decimal128(3, 2)", "decimal128(2, 0)", "string"]),
        ("dropFieldIfAllNull", ["bool", "double", "string"]),
        (None, ["bool", "double", "string", "string"]),
    ],
)
def test_each_option_of_inference(tmp_path, source_harness, option, types):
    (tmp_path / "in.json").write_text('{"a": true, "b": 1.25, "c": "12", "d": null}\n')
    options = {} if option is None else {option: "true"}
    schema = source_harness.source(tmp_path / "in.json", format="json", **options).infer_schema()
    assert [str(type_) for type_ in schema.types] == types


def test_a_number_with_an_endless_exponent_is_read_as_it_stands(tmp_path, source_harness):
    """Such numbers stand for others while a row is read, and never for those of another row, or of the file."""
    odd = "1e" + "0" * 60
    (tmp_path / "in.json").write_text(f'{{"a": 007}}\n{{"a": {odd}0}}\n{{"a": 008, "b": {odd}0}}\n')
    schema = [("a", pa.float64()), ("_corrupt_record", pa.string())]
    rows = source_harness.rows(tmp_path / "in.json", schema, format="json", allowNumericLeadingZeros="true")
    assert [row[0] for row in rows] == [7.0, 1.0, None]
    assert rows[2][1] is not None
