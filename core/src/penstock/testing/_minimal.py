"""The smallest connector that passes the kit, both ways: JSON lines in the files of a local directory.

A segment of rows becomes a file of its name: sent twice, it replaces itself. A split is a file, which never changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.json

from penstock.connector import Capability, Connector
from penstock.options import Option, OptionSet, OptionValues
from penstock.sink import Segment, Sender, SinkContext, WriteAheadSink
from penstock.source import ReaderContext, SimpleSource, SimpleSplit

__all__ = ["MinimalConnector"]


@dataclass(frozen=True)
class MinimalSink(WriteAheadSink):
    path: str

    def create_sender(self, context: SinkContext) -> Sender:
        return MinimalSender(self.path)


class MinimalSender(Sender):
    def __init__(self, path: str) -> None:
        self._path = path

    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        os.makedirs(self._path, exist_ok=True)
        with open(f"{self._path}/.{segment.id}", "w", encoding="utf-8") as file:
            for batch in batches:
                file.writelines(json.dumps(row, default=str) + "\n" for row in batch.to_pylist())
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{self._path}/.{segment.id}", f"{self._path}/{segment.id}.jsonl")


@dataclass(frozen=True)
class MinimalSource(SimpleSource):
    path: str

    def find_splits(self) -> list[SimpleSplit]:
        names = sorted(os.listdir(self.path)) if os.path.isdir(self.path) else []
        visible = [name for name in names if not name.startswith(".")]
        return [SimpleSplit(name, os.path.getsize(f"{self.path}/{name}")) for name in visible]

    def read_split(self, split: SimpleSplit, context: ReaderContext) -> Iterator[pa.RecordBatch]:
        parsing = pa.json.ParseOptions(explicit_schema=context.schema, unexpected_field_behavior="ignore")
        with pa.json.open_json(f"{self.path}/{split.split_id}", parse_options=parsing) as batches:
            yield from batches


class MinimalConnector(Connector):
    """Register it as an entry point of the group ``penstock.connectors``."""

    summary = "JSON lines in the files of a local directory"
    source_options = sink_options = OptionSet([Option("path", "A local directory", required=True)])
    capabilities = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.DISCOVERY,
            Capability.RESUMABLE,
            Capability.RESCALING,
            Capability.STREAM_WRITE,
            Capability.EXACTLY_ONCE,
        }
    )

    def create_source(self, options: OptionValues) -> MinimalSource:
        return MinimalSource(options["path"])

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> MinimalSink:
        return MinimalSink(options["path"])

    def describe_guarantee(self) -> str:
        return "exactly once, both ways"
