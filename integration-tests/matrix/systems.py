"""The systems of the matrix: how to feed them, how a stream reads and writes them, what readers find."""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.feeding import CsvFiles
from harness.oracle import table_of
from penstock_kafka.dev import KafkaToolbox
from penstock_pravega.dev import PravegaToolbox
from suite.cassandra import CassandraToolbox

__all__ = ["CassandraSystem", "FileSystem", "KafkaSystem", "PravegaSystem", "Row", "System", "row_from_spark", "row_of"]

ROW = "id long, at timestamp, note string"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
_FROM_JSON = [[f"from_json(string(value), '{ROW}') as row"], ["row.*"]]
#: A row to compare: id, seconds since the epoch, note.
Row = tuple[int, int, str]


def row_of(number: int) -> Row:
    """Returns the row with this id. Their times are a second apart."""
    return number, int(START.timestamp()) + number, f"note {number}"


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def row_from_spark(row: dict[str, Any]) -> Row:
    """Converts a row of a Parquet file."""
    return row["id"], int(row["at"].timestamp()), row["note"]


def _as_json(number: int) -> str:
    _, at, note = row_of(number)
    return json.dumps({"id": number, "at": f"{_time(at):%Y-%m-%dT%H:%M:%SZ}", "note": note})


def _from_json(text: bytes) -> Row:
    row = json.loads(text)
    return row["id"], int(datetime.fromisoformat(row["at"].replace("Z", "+00:00")).timestamp()), row["note"]


class System(ABC):
    """A system that streams read and write. ``place`` is the directory, topic, table or stream of one of them."""

    name: str
    #: Whether a stream reads what is added after its first run.
    grows = True
    #: The guarantees that its sink can give.
    deliveries: tuple[str, ...] = ("exactly-once", "at-least-once")

    @abstractmethod
    def new_place(self) -> str:
        """Creates an empty place."""

    @abstractmethod
    def feed(self, place: str, ids: range) -> None:
        """Adds rows; returns when they are there."""

    @abstractmethod
    def source(self, place: str) -> dict[str, Any]:
        """Returns the job's spec of the source, for a few hundred rows a batch."""

    @abstractmethod
    def sink(self, place: str, delivery: str) -> dict[str, Any]:
        """Returns the job's spec of the sink, with one of the ``deliveries``."""

    @abstractmethod
    def rows(self, place: str) -> Counter[Row]:
        """Counts the rows that a reader sees."""


class FileSystem(System):
    """CSV files in, Parquet files out."""

    name = "files"
    deliveries = ("exactly-once",)

    def __init__(self, folder: Path, **options: str) -> None:
        self._folder = folder
        self._options = {"format": "parquet", **options}

    def new_place(self) -> str:
        place = self._folder / uuid.uuid4().hex[:8]
        place.mkdir()
        return str(place)

    def feed(self, place: str, ids: range) -> None:
        files = CsvFiles(Path(place))
        for start in range(ids.start, ids.stop, 50):
            rows = (row_of(number) for number in range(start, min(start + 50, ids.stop)))
            files.put([(number, f"{_time(at):%Y-%m-%dT%H:%M:%S}", note) for number, at, note in rows])

    def source(self, place: str) -> dict[str, Any]:
        options = {"path": place, "format": "csv", "header": "true", "maxFilesPerTrigger": "4"}
        return {"format": "penstock.filesystem", "options": options, "schema": ROW, "columns": []}

    def sink(self, place: str, delivery: str) -> dict[str, Any]:
        return {"format": "penstock.filesystem", "options": {"path": place, **self._options}, "columns": ["*"]}

    def rows(self, place: str) -> Counter[Row]:
        found = table_of(Path(place), ["id", "at", "note"])
        return Counter(map(row_from_spark, found.to_pylist() if found is not None else ()))


class KafkaSystem(System):
    """JSON values; transactions."""

    name = "kafka"

    def __init__(self, toolbox: KafkaToolbox) -> None:
        self._toolbox = toolbox

    def new_place(self) -> str:
        return self._toolbox.create_topic(partitions=2)

    def feed(self, place: str, ids: range) -> None:
        self._toolbox.produce(place, [{"value": _as_json(number), "partition": number % 2} for number in ids])

    def source(self, place: str) -> dict[str, Any]:
        options = {"subscribe": place, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "200", **self._where}
        return {"format": "penstock.kafka", "options": options, "columns": _FROM_JSON}

    def sink(self, place: str, delivery: str) -> dict[str, Any]:
        options = {"topic": place, "delivery": delivery, **self._where}
        return {"format": "penstock.kafka", "options": options, "columns": ["to_json(struct(*)) as value"]}

    @property
    def _where(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._toolbox.address}

    def rows(self, place: str) -> Counter[Row]:
        return Counter(_from_json(record.value or b"{}") for record in self._toolbox.read(place))


class PravegaSystem(System):
    """JSON events; transactions."""

    name = "pravega"

    def __init__(self, toolbox: PravegaToolbox) -> None:
        self._toolbox = toolbox

    def new_place(self) -> str:
        return self._toolbox.create_stream(segments=2)

    def feed(self, place: str, ids: range) -> None:
        self._toolbox.write(place, [(str(number), _as_json(number).encode()) for number in ids])

    def source(self, place: str) -> dict[str, Any]:
        options = {"stream": place, "startingStreamCut": "head", "maxRowsPerTrigger": "200", **self._where}
        return {"format": "penstock.pravega", "options": options, "columns": _FROM_JSON}

    def sink(self, place: str, delivery: str) -> dict[str, Any]:
        options = {"stream": place, "delivery": delivery, **self._where}
        columns = ["string(id) as routing_key", "encode(to_json(struct(id, at, note)), 'utf-8') as value"]
        return {"format": "penstock.pravega", "options": options, "columns": columns}

    @property
    def _where(self) -> dict[str, str]:
        return {"controller": self._toolbox.address, "scope": self._toolbox.scope}

    def rows(self, place: str) -> Counter[Row]:
        return Counter(map(_from_json, self._toolbox.values(place)))


class CassandraSystem(System):
    """Tables with the key ``id``. The sink stamps the rows of a batch: no older row overwrites them."""

    name = "cassandra"
    grows = False

    def __init__(self, toolbox: CassandraToolbox) -> None:
        self._toolbox = toolbox

    def new_place(self) -> str:
        return self._toolbox.table("id bigint primary key, at timestamp, note text")

    def feed(self, place: str, ids: range) -> None:
        rows = [(number, _time(at), note) for number, at, note in map(row_of, ids)]
        self._toolbox.insert(place, "id, at, note", rows)

    def source(self, place: str) -> dict[str, Any]:
        options = {"table": place, "splits": "12", "maxSplitsPerTrigger": "3", **self._toolbox.options}
        return {"format": "penstock.cassandra", "options": options, "columns": [["id", "at", "note"]]}

    def sink(self, place: str, delivery: str) -> dict[str, Any]:
        options = {"table": place, "delivery": delivery, **self._toolbox.options}
        return {"format": "penstock.cassandra", "options": options, "columns": ["*"]}

    def rows(self, place: str) -> Counter[Row]:
        found = self._toolbox.rows(place, "id, at, note")
        return Counter((number, int(at.replace(tzinfo=timezone.utc).timestamp()), note) for number, at, note in found)
