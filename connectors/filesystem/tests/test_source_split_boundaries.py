"""Any text, any split size: the same rows, once, at the same offsets."""

from __future__ import annotations

import io
import re
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_filesystem.formats._blocks import can_split_at, quoted_row_blocks, row_blocks
from penstock_filesystem.formats.csv import CsvReadDialect
from penstock_filesystem.formats.csv._cells import _row_pattern, last_row_end
from penstock_filesystem.options import SOURCE_OPTIONS

FEW = settings(max_examples=150)
FEWER = settings(FEW, max_examples=40)
LINES = st.lists(st.text(st.sampled_from("a,é漢😀 \t\r"), max_size=6), max_size=12)


def split_everywhere(data, separator, size, block):
    """Rows of every range of ``size`` bytes, as (offset, bytes without end)."""
    found = []
    for start in range(0, max(len(data), 1), size):
        stream = io.BytesIO(data)
        stream.seek(max(0, start - len(separator)))
        for one in row_blocks(stream.read, start, min(start + size, len(data)), separator, block):
            assert data[one.offset : one.offset + len(one.data)] == one.data
            position = one.offset
            for row in one.data.removesuffix(separator).split(separator):
                assert start <= position < start + size
                found.append((position, row))
                position += len(row) + len(separator)
    return found


def expected_rows(data, separator):
    rows, position = [], 0
    for row in data.removesuffix(separator).split(separator) if data else []:
        rows.append((position, row))
        position += len(row) + len(separator)
    return rows


@FEW
@given(LINES, st.integers(1, 40), st.integers(1, 20), st.sampled_from([b"\n", b"\r\n", b"ab", b";;x"]), st.booleans())
def test_every_row_is_in_the_range_it_starts_in(lines, size, block, separator, ended):
    data = separator.join(line.encode() for line in lines) + (separator if ended else b"")
    assert split_everywhere(data, separator, size, block) == expected_rows(data, separator)


@FEWER
@given(LINES, st.integers(1, 30), st.booleans())
def test_text_files_read_the_same_whatever_the_split_size(tmp_path, source_harness, lines, size, ended):
    path = tmp_path / "in.txt"
    path.write_bytes("\n".join(lines).encode() + (b"\n" if ended else b""))
    schema = pa.schema([("value", pa.string()), ("_file_offset", pa.int64())])
    whole = source_harness.read(source_harness.source(path, format="text"), schema)
    cut = source_harness.source(path, format="text", maxSplitBytes=size)
    assert source_harness.read(cut, schema).equals(whole)
    without_offsets = source_harness.read(cut)
    assert without_offsets.column("value").equals(whole.column("value"))


@FEWER
@given(
    st.lists(st.tuples(st.integers(-(10**6), 10**6), st.text("aé,\"' ", max_size=5)), max_size=15), st.integers(1, 40)
)
def test_csv_and_json_read_the_same_whatever_the_split_size(tmp_path, source_harness, rows, size):
    import json

    schema = [("a", pa.int64()), ("b", pa.string())]
    quoted = ['"' + b.replace('"', '""') + '"' for _, b in rows]
    path = tmp_path / "in.csv"
    path.write_text(
        "a,b\r\n" + "".join(f"{a},{q}\r\n" for (a, _), q in zip(rows, quoted, strict=True)), encoding="utf-8"
    )
    read = source_harness.rows(path, schema, format="csv", header=True, maxSplitBytes=size)
    assert read == [(a, b or None) for a, b in rows]
    path = tmp_path / "in.json"
    path.write_text("".join(json.dumps({"a": a, "b": b}) + "\n\n" for a, b in rows))
    assert source_harness.rows(path, schema, format="json", maxSplitBytes=size) == rows


@FEW
@given(st.lists(st.lists(st.text('a\n\r",', max_size=5), min_size=2, max_size=2), max_size=8), st.integers(1, 12))
def test_blocks_of_quoted_rows_end_where_rows_end(rows, block):
    ends, text = set(), ""
    for cells in rows:
        text += ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"
        ends.add(len(text))
    dialect = CsvReadDialect.from_values(SOURCE_OPTIONS.parse({"path": "x", "format": "csv"}, owner="source"))
    blocks = list(quoted_row_blocks(io.BytesIO(text.encode()).read, partial(last_row_end, dialect=dialect), block))
    assert b"".join(one.data for one in blocks) == text.encode()
    assert {one.offset + len(one.data) for one in blocks} <= ends


@settings(FEW, max_examples=500)
@given(st.text('a",\n\r\\ ', max_size=30), st.sampled_from(["\\", '"', ""]))
def test_row_ends_are_found_alike_by_cells_and_by_rows(text, escape):
    options = SOURCE_OPTIONS.parse({"path": "x", "format": "csv", "escape": escape}, owner="source")
    dialect, data = CsvReadDialect.from_values(options), text.encode()
    rows = re.finditer(_row_pattern(dialect).encode(), data, re.DOTALL)
    ends = [match.end() for match in rows if match[1].endswith(b"\n")]
    assert last_row_end(data, dialect) == max(ends, default=0)


@pytest.mark.parametrize(("separator", "safe"), [(b"\n", True), (b"\r\n", True), (b"||", False), (b"aba", False)])
def test_a_separator_that_overlaps_itself_keeps_files_whole(separator, safe):
    assert can_split_at(separator) is safe


def test_a_row_longer_than_a_block_is_one_row():
    data = b"x" * 1000 + b"\n" + b"y" * 2000 + b"\nz"
    blocks = list(row_blocks(io.BytesIO(data).read, 0, None, b"\n", 16))
    assert [len(one.data) for one in blocks] == [1001, 2001, 1]
