"""What the suites of a source share: which source, and its cases that need no engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.options import OptionSet, OptionValues
from penstock.serialization import SimpleVersionedSerializer
from penstock.source import Source
from penstock.testing._connector_suite import ConnectorSuite
from penstock.testing._origin import SourceOrigin

__all__ = ["SourceCases"]


class SourceCases(ConnectorSuite):
    """What may be overridden: ``schema`` and :meth:`id_of`, for a source that gives other rows."""

    side: ClassVar[Capability] = Capability.STREAM_READ
    schema: ClassVar[pa.Schema] = pa.schema([("id", pa.int64())])

    @pytest.fixture
    def origin(self) -> SourceOrigin:
        """Returns where the source reads from, empty at first. To be overridden."""
        raise NotImplementedError("write a fixture 'origin' that returns a penstock.testing.SourceOrigin")

    def id_of(self, row: Mapping[str, Any]) -> int:
        """Returns which of the rows that were put there it is."""
        return int(row["id"])

    # --- the source ---------------------------------------------------------------------------------------------------

    @pytest.fixture
    def given(self, origin: SourceOrigin) -> Mapping[str, str]:
        return origin.options

    def _option_set(self) -> OptionSet:
        declared = self.connector.source_options
        assert declared is not None, f"{self.connector.__name__} declares no source_options"
        return declared

    def _create(self, options: OptionValues) -> Source[Any, Any]:
        return self._create_for(options, self.schema)

    def _create_for(self, options: OptionValues, schema: pa.Schema) -> Source[Any, Any]:
        source = self.connector().create_source(options)
        source.validate_schema(schema)
        return source

    def _serializers(self, made: Any) -> dict[str, SimpleVersionedSerializer[Any]]:
        return {"split": made.split_serializer, "enumerator": made.enumerator_serializer}

    def _source(self, origin: SourceOrigin, **more: str) -> Source[Any, Any]:
        return self._create(self._parse({**origin.options, **more}))
