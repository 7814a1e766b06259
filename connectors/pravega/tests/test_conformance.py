"""The conformance kit on a real server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.testing import SourceOrigin, SourceSuite
from penstock_pravega import PravegaConnector
from penstock_pravega.source._schema import event_schema


class TestSource(SourceSuite):
    connector = PravegaConnector
    schema = event_schema(pa.binary())
    limit = ("maxRowsPerTrigger", "6", 6)

    def id_of(self, row):
        return int(row["value"])

    @pytest.fixture
    def origin(self, pravega):
        stream = pravega.create_stream(segments=2)
        options = {
            "controller": pravega.address,
            "scope": pravega.scope,
            "stream": stream,
            "startingStreamCut": "head",
            "discoveryInterval": "100ms",
        }
        return SourceOrigin(options, lambda ids: pravega.write(stream, [(str(i), str(i).encode()) for i in ids]))
