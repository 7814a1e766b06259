"""What the decision log holds of this sink: every released form still opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import FatalError
from penstock_filesystem.sink import FileSystemTransactionalSink
from penstock_filesystem.sink._committable import (
    COMMITTABLE_SERIALIZER,
    WRITER_STATE_SERIALIZER,
    Chunk,
    PendingPart,
    UploadedPart,
    describe_chunk,
    human_size,
)

GOLDEN = Path(__file__).parent / "golden"
CHUNK = Chunk(
    bucket="2013-01-01--05",
    path=".penstock/q1/7/0123456789abcdef0123456789abcdef-w0.chunk",
    size=3_400_000,
    rows=120_000,
    format="csv",
    extension=".csv.gz",
    fingerprint="0123456789ab",
    header=40,
    created_ms=1_357_016_400_000,
    last_write_ms=1_357_016_460_000,
)
RENAME = PendingPart(
    "rename",
    final="2013-01-01--05/part-3-12-0123456789abcdef.csv.gz",
    size=134_217_728,
    rows=5_000_000,
    hidden=".penstock/q1/9/0123456789abcdef0123456789abcdef-r0.chunk",
    adopted=True,
    consumed=(CHUNK.path,),
)
MULTIPART = PendingPart(
    "multipart",
    final="é=1/part-0-0-0123456789abcdef.parquet",
    size=9_000_000,
    rows=10,
    upload_id="upload",
    parts=(UploadedPart(1, '"a1"', 8_388_608), UploadedPart(2, '"b2"', 611_392)),
    marker=".penstock/q1/9/0123456789abcdef0123456789abcdef-w1.upload",
)


def test_state_of_version_1_opens():
    assert WRITER_STATE_SERIALIZER.deserialize(1, (GOLDEN / "state-v1.bin").read_bytes()) == CHUNK


def test_committables_of_version_1_open():
    stored = (GOLDEN / "committable-v1.bin").read_bytes().splitlines()
    assert [COMMITTABLE_SERIALIZER.deserialize(1, one) for one in stored] == [RENAME, MULTIPART]


@pytest.mark.parametrize(
    ("serializer", "value"), [(WRITER_STATE_SERIALIZER, CHUNK), (COMMITTABLE_SERIALIZER, MULTIPART)]
)
def test_round_trip_and_equal_bytes_for_equal_values(serializer, value):
    stored = serializer.pack(value)
    assert serializer.unpack(stored) == value
    assert serializer.pack(serializer.unpack(stored)) == stored


def test_newer_forms_are_refused():
    with pytest.raises(FatalError, match="version 2"):
        WRITER_STATE_SERIALIZER.deserialize(2, b"{}")


def test_in_words():
    text = describe_chunk(CHUNK)
    assert "120000 rows, 3.4 MB, bucket 2013-01-01--05, since 2013-01-01 05:00:00 UTC" in text
    assert FileSystemTransactionalSink.describe_committable(None, MULTIPART).endswith(
        "10 rows, 9.0 MB, from a multipart upload of 2 parts"
    )
    assert [human_size(n) for n in (999, 999_999, 1_500_000_000, 2 * 10**12)] == ["999 B", "1.0 MB", "1.5 GB", "2.0 TB"]
