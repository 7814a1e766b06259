"""Days before 1582-10-15 in files that count them by the Julian calendar: Spark shifts them; here they are refused."""

from __future__ import annotations

from datetime import date, datetime, timezone

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import BadDataError

UTC = timezone.utc
OLD, LATE = date(1500, 3, 1), date(1582, 10, 15)
POINT = pa.timestamp("us", "UTC")
IN_UTC = {"org.apache.spark.version": "4.2.0", "org.apache.spark.timeZone": "UTC"}
LEGACY = {**IN_UTC, "org.apache.spark.legacyDateTime": ""}
OF_INT96 = {**IN_UTC, "org.apache.spark.legacyINT96": ""}
ELSEWHERE = {**LEGACY, "org.apache.spark.timeZone": "Europe/Berlin"}
REFUSED = r"counted by the Julian calendar, which is not read here"


def at(day, hour=0):
    return datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("metadata", "value", "type_", "is_read"),
    [
        (LEGACY, OLD, pa.date32(), False),
        (LEGACY, LATE, pa.date32(), True),
        (LEGACY, None, pa.date32(), True),
        (LEGACY, at(OLD), POINT, False),
        (LEGACY, at(LATE), POINT, True),
        (LEGACY, at(OLD).replace(tzinfo=None), pa.timestamp("us"), True),
        (LEGACY, [at(OLD)], pa.list_(POINT), False),
        (LEGACY, [("k", {"d": OLD})], pa.map_(pa.string(), pa.struct([("d", pa.date32())])), False),
        (ELSEWHERE, date(1899, 12, 31), pa.date32(), True),
        (ELSEWHERE, at(date(1899, 12, 31)), POINT, False),
        (ELSEWHERE, at(date(1900, 1, 1)), POINT, True),
        (OF_INT96, OLD, pa.date32(), True),
        (OF_INT96, at(OLD), POINT, True),
        ({"org.apache.spark.version": "2.4.8"}, OLD, pa.date32(), False),
        ({"org.apache.spark.version": "3.0.0"}, OLD, pa.date32(), True),
        ({}, OLD, pa.date32(), True),
    ],
)
def test_which_values_are_refused_in_parquet(tmp_path, source_harness, metadata, value, type_, is_read):
    schema = pa.schema([("v", type_)], metadata=metadata)
    pq.write_table(pa.table([pa.array([value], type_)], schema=schema), tmp_path / "a.parquet")
    wanted = [("v", type_)]
    if is_read:
        assert source_harness.rows(tmp_path, wanted, format="parquet") == [(value,)]
        return
    # Of a good file no row is skipped.
    for options in ({}, {"ignoreCorruptFiles": True}):
        with pytest.raises(BadDataError, match=REFUSED):
            source_harness.rows(tmp_path, wanted, format="parquet", **options)


@pytest.mark.parametrize(("version", "day", "is_read"), [("3.0.9", OLD, False), ("3.1.0", OLD, True)])
def test_int96(tmp_path, source_harness, version, day, is_read):
    metadata = {"org.apache.spark.version": version, "org.apache.spark.timeZone": "UTC"}
    table = pa.table([pa.array([at(day)], POINT)], schema=pa.schema([("v", POINT)], metadata=metadata))
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    if is_read:
        assert source_harness.rows(tmp_path, [("v", POINT)], format="parquet") == [(at(day),)]
    else:
        with pytest.raises(BadDataError, match=REFUSED):
            source_harness.rows(tmp_path, [("v", POINT)], format="parquet")


@pytest.mark.parametrize(
    ("metadata", "day", "is_read"), [(LEGACY, OLD, False), (LEGACY, LATE, True), (OF_INT96, OLD, True)]
)
@pytest.mark.parametrize("kind", ["date", "timestamp-micros"])
def test_avro(tmp_path, source_harness, metadata, day, is_read, kind):
    type_ = {"type": "int" if kind == "date" else "long", "logicalType": kind}
    field = {"name": "v", "type": {"type": "array", "items": type_}}
    value = day if kind == "date" else at(day)
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": [field]}, [{"v": [value]}], metadata=metadata)
    wanted = [("v", pa.list_(pa.date32() if kind == "date" else POINT))]
    if is_read:
        assert source_harness.rows(tmp_path, wanted, format="avro") == [([value],)]
    else:
        with pytest.raises(BadDataError, match=REFUSED):
            source_harness.rows(tmp_path, wanted, format="avro")


@pytest.mark.spark
def test_what_spark_writes(spark, tmp_path, source_harness):
    """Spark reads each file; here, those are refused that say they are Julian, and the others are the same rows."""
    frame = spark.sql("select date'1500-03-01' d, timestamp'1500-03-01 00:00:00' t").coalesce(1)
    wanted = [("d", pa.date32()), ("t", POINT)]
    for format_ in ("parquet", "avro"):
        setting = f"spark.sql.{format_}.datetimeRebaseModeInWrite"
        for mode in ("LEGACY", "CORRECTED"):
            where = str(tmp_path / format_ / mode)
            spark.conf.set(setting, mode)
            try:
                frame.write.format(format_).save(where)
            finally:
                spark.conf.unset(setting)
            row = spark.read.format(format_).load(where).selectExpr("cast(d as string)").first()
            assert row == ("1500-03-01",)
            if mode == "CORRECTED":
                assert source_harness.rows(where, wanted, format=format_) == [(OLD, at(OLD))]
            else:
                with pytest.raises(BadDataError, match=REFUSED):
                    source_harness.rows(where, wanted, format=format_)
