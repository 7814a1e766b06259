"""Where row groups begin: as pyarrow has it, for footers of every kind; and damaged ones are refused."""

from __future__ import annotations

import contextlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock_filesystem.formats.parquet._footer import first_bytes, footer_of

TABLE = pa.table(
    {
        "a": range(1000),
        "t": [f"text {n % 7}" for n in range(1000)],
        "l": [[n] * (n % 20) for n in range(1000)],
        "m": [{"x": n, "y": None} for n in range(1000)],
    }
)


def written(**options):
    out = io.BytesIO()
    pq.write_table(TABLE, out, **options)
    return out.getvalue()


def of_pyarrow(data):
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    return [
        min(
            min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
            for column in map(group.column, range(group.num_columns))
        )
        for group in map(metadata.row_group, range(metadata.num_row_groups))
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 10},
        {"row_group_size": 300, "use_dictionary": False, "write_statistics": False},
        {"compression": "zstd", "row_group_size": 400, "data_page_version": "2.0", "write_page_index": True},
        {"sorting_columns": [pq.SortingColumn(0)], "store_schema": False, "write_page_checksum": True},
        {"bloom_filter_options": {"a": {"ndv": 100}}} if "bloom_filter_options" in pq.write_table.__doc__ else {},
    ],
    ids=str,
)
def test_as_pyarrow_has_it(options):
    data = written(**options)
    assert first_bytes(footer_of(pa.BufferReader(data))) == of_pyarrow(data)


def test_a_file_without_rows_has_no_groups():
    out = io.BytesIO()
    pq.write_table(TABLE.slice(0, 0), out)
    assert first_bytes(footer_of(pa.BufferReader(out.getvalue()))) == of_pyarrow(out.getvalue())


FOOTER = footer_of(pa.BufferReader(written(row_group_size=500)))


@given(at=st.integers(0, len(FOOTER) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(FOOTER)))
@example(at=0, byte=0x0F, cut=len(FOOTER))
def test_a_damaged_footer_is_refused_or_read(at, byte, cut):
    data = bytearray(FOOTER[:cut])
    if at < cut:
        data[at] = byte
    with contextlib.suppress(ValueError):
        assert all(isinstance(start, int) for start in first_bytes(bytes(data)))


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"PAR1" * 3, b"PAR1" + b"\xff" * 12 + b"PAR1", written()[:-1], bytes(20)], ids=len
)
def test_a_file_without_a_footer_is_refused(data):
    with pytest.raises(ValueError, match="no footer"):
        footer_of(pa.BufferReader(data))


@pytest.mark.parametrize(
    "footer",
    [
        b"\x49" + b"\xfc\xff\xff\xff\x0f",  # a list of 2^32 structs
        b"\x4c" * 100,  # structs in structs
        b"\x16" + b"\xff" * 20,  # a number that does not end
        b"\x49\x15\x00",  # row groups that are numbers
        b"\x1d",  # a kind that there is not
    ],
)
def test_what_is_no_footer_is_refused(footer):
    with pytest.raises(ValueError, match="its footer"):
        first_bytes(footer)
