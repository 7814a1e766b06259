"""The conformance kit on the file system."""

from __future__ import annotations

import json
import uuid

import pytest

from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite
from penstock_filesystem import FileSystemConnector


class TestSink(SinkSuite):
    connector = FileSystemConnector

    @pytest.fixture
    def new_target(self, tmp_path):
        def make():
            folder = tmp_path / uuid.uuid4().hex

            def read():
                paths = [path for path in folder.rglob("*.json") if not is_hidden(path.relative_to(folder))]
                return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

            def hidden():
                files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
                return [str(path) for path in files if is_hidden(path)]

            return SinkTarget({"path": str(folder), "format": "json"}, read, hidden)

        return make


class TestSource(SourceSuite):
    connector = FileSystemConnector
    limit = ("maxFilesPerTrigger", "4", 4)

    @pytest.fixture
    def origin(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()

        def put(ids):
            path = folder / f"{uuid.uuid4().hex}.json"
            whole = tmp_path / "part"
            whole.write_text("".join(f'{{"id": {i}}}\n' for i in ids))
            whole.rename(path)

        return SourceOrigin({"path": str(folder), "format": "json", "discoveryInterval": "20ms"}, put)


def is_hidden(path):
    return any(part.startswith((".", "_")) for part in path.parts)
