"""What the job published beside a plain batch computation of the same flights. Nothing of Penstock is used here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

_KEYS = ["origin", "hour"]


@dataclass(frozen=True)
class Comparison:
    """``lost``: flights missing in the counts. ``doubled``: flights counted too often, and rows that came twice."""

    lost: int
    doubled: int
    rows: int
    flights: int


def expected_counts(flights: pa.Table) -> pa.Table:
    """origin, hour, expected: computed by pyarrow from the original file, in one go."""
    counted = flights.group_by(_KEYS).aggregate([([], "count_all")])
    return _by_second(counted.rename_columns([*_KEYS, "expected"]))


def published_files(out: Path) -> list[Path]:
    """The files that a directory listing shows, as any reader sees them."""
    listed = (path.relative_to(out) for path in out.rglob("*.parquet"))
    return sorted(path for path in listed if not any(part[0] in "._" for part in path.parts))


def read_published(out: Path) -> pa.Table:
    """origin, hour, flights, as pyarrow reads the directory; an empty table if nothing is published yet."""
    found = pa.dataset.dataset(out, format="parquet")
    if not found.files:
        return pa.table(
            {"origin": pa.array([], "string"), "hour": pa.array([], "int64"), "flights": pa.array([], "int64")}
        )
    return _by_second(found.to_table(columns=[*_KEYS, "flights"]))


def _by_second(table: pa.Table) -> pa.Table:
    """The hours as seconds since 1970: pyarrow does not join timestamps of different units."""
    seconds = table["hour"].cast(pa.timestamp("s", "UTC")).cast(pa.int64())
    return table.set_column(table.schema.get_field_index("hour"), "hour", seconds)


def compare(expected: pa.Table, published: pa.Table) -> Comparison:
    """Every count of ``published`` with that of ``expected``."""
    per_key = published.group_by(_KEYS).aggregate([("flights", "sum"), ("flights", "count")])
    both = expected.join(per_key, keys=_KEYS, join_type="full outer")
    wanted = pc.coalesce(both["expected"], 0)
    got = pc.coalesce(both["flights_sum"], 0)
    more = pc.subtract(got, wanted)
    return Comparison(
        lost=_sum(pc.max_element_wise(pc.negate(more), 0)),
        doubled=_sum(pc.max_element_wise(more, 0)) + published.num_rows - per_key.num_rows,
        rows=published.num_rows,
        flights=_sum(published["flights"]),
    )


def _sum(numbers: pa.ChunkedArray) -> int:
    return int(pc.sum(numbers).as_py() or 0)
