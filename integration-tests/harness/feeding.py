"""Writes the input of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from penstock_kafka.dev import KafkaToolbox
from penstock_pravega.dev import PravegaToolbox

__all__ = ["CsvFiles", "Feed", "put"]


def put(path: Path, text: str) -> None:
    """Writes a file that readers see only when it is complete."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.rename(path)


class CsvFiles:
    """CSV files in ``folder`` with a header and rows ``id,at,note``. A file is named after its first id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, rows: Sequence[tuple[int, str, str]]) -> None:
        """Writes one file."""
        self.folder.mkdir(exist_ok=True)
        lines = "".join(f"{number},{at},{note}\n" for number, at, note in rows)
        put(self.folder / f"{rows[0][0]:08d}.csv", f"id,at,note\n{lines}")

    def __call__(self, files: int, rows: int, first: int = 0) -> range:
        """Writes files with consecutive ids, starting at ``first``. Returns the range of all ids so far."""
        for start in range(first, first + files * rows, rows):
            self.put([(i, f"2024-01-01T00:00:{i % 60:02d}", f"note {i}") for i in range(start, start + rows)])
        return range(first + files * rows)


class Feed:
    """Writes values ``<key>:<number>`` of a few keys. ``expected`` holds all values so far.

    ``write`` takes pairs of key and value.
    """

    def __init__(self, write: Callable[[Iterable[tuple[str, str]]], None], keys: int = 8) -> None:
        self._write, self._keys = write, keys
        self.expected: set[str] = set()

    def add(self, records: int) -> None:
        """Writes that many more."""
        numbers = range(len(self.expected), len(self.expected) + records)
        pairs = [(f"k{number % self._keys}", f"k{number % self._keys}:{number}") for number in numbers]
        self._write(pairs)
        self.expected |= {value for _, value in pairs}

    @classmethod
    def of_topic(cls, kafka: KafkaToolbox, topic: str, keys: int = 8) -> Feed:
        """Returns one that writes to a Kafka topic."""
        return cls(lambda pairs: kafka.produce(topic, [{"key": key, "value": value} for key, value in pairs]), keys)

    @classmethod
    def of_stream(cls, pravega: PravegaToolbox, stream: str, keys: int = 9) -> Feed:
        """Returns one that writes to a Pravega stream; the key is the routing key."""
        return cls(lambda pairs: pravega.write(stream, [(key, value.encode()) for key, value in pairs]), keys)
