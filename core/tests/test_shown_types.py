"""Types that a person sees are Spark's: those that they write in schemas and options."""

from __future__ import annotations

import ast
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.serialization.ddl import shown_type

ROOT = Path(__file__).parents[2]
#: What has types of its own: protocols, encodings of files, templates that an author changes.
ELSEWHERE = ("/client/", "/testing/", "/orc/", "/parquet/_footer.py", "__repr__")
TYPES = {"type", "type_", "key_type", "value_type", "item_type"}


@pytest.mark.parametrize(
    ("type_", "other", "shown"),
    [
        (pa.int64(), None, "bigint"),
        (pa.timestamp("ns", tz="Europe/Berlin"), None, "timestamp"),
        (pa.list_(pa.struct([("a b", pa.decimal128(9, 2))])), None, "array<struct<`a b`: decimal(9,2)>>"),
        (pa.uint32(), None, "uint32"),
        (pa.int64(), pa.int32(), "bigint"),
        (pa.timestamp("ns"), pa.timestamp("us"), "timestamp[ns]"),
        (pa.large_string(), pa.string(), "large_string"),
        (pa.uint8(), pa.uint8(), "uint8"),
    ],
)
def test_the_words_are_sparks_where_it_has_some(type_, other, shown):
    assert shown_type(type_, other) == shown


def test_no_text_shows_a_type_in_arrows_words():
    found = []
    for package in (ROOT / "core/src", *ROOT.glob("connectors/*/src")):
        for path in package.rglob("*.py"):
            if not any(part in str(path) for part in ELSEWHERE):
                for node in ast.walk(ast.parse(path.read_text())):
                    if isinstance(node, ast.FormattedValue):
                        shown = getattr(node.value, "attr", getattr(node.value, "id", ""))
                        found += [f"{path}:{node.lineno}"] * (shown in TYPES)
    others = ("formats/_settings.py", "/ddl.py", "/_json_schema.py", "/_protobuf/_format.py")  # types of other kinds
    assert [one for one in found if not any(part in one for part in others)] == [], (
        "write shown_type(…) of penstock.serialization.ddl"
    )
