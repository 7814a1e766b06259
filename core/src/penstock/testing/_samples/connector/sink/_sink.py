"""The sink: rows wait in the checkpoint until their batch is decided, then they are sent in segments."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.sink import Sender, SinkContext, WriteAheadSink
from penstock.testing._samples.connector._options import SinkOptions
from penstock.testing._samples.connector.sink._writer import MinimalSender

__all__ = ["MinimalWriteAheadSink", "create_sink"]

_CHECKS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_string)


@dataclass(frozen=True)
class MinimalWriteAheadSink(WriteAheadSink):
    """Makes a sender for each thread that sends."""

    options: SinkOptions

    def validate_schema(self, schema: pa.Schema) -> None:
        """Refuses what JSON can't hold as it is: a batch that is decided has to be sent."""
        for field in schema:
            if not any(check(field.type) for check in _CHECKS):
                raise BadConfigurationError(
                    f"column '{field.name}' is {field.type}; booleans, whole numbers and texts can be written: cast it "
                    "to string"
                )

    def create_sender(self, context: SinkContext) -> Sender:
        return MinimalSender(self.options.path)


def create_sink(options: SinkOptions, schema: pa.Schema) -> MinimalWriteAheadSink:
    """Makes the sink for rows of ``schema``. Driver."""
    return MinimalWriteAheadSink(options)
