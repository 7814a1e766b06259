"""The sink: rows wait in the checkpoint until their batch is decided, then they are sent in segments."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.sink import Sender, SinkContext, WriteAheadSink
from penstock.testing._samples.connector._options import SinkOptions
from penstock.testing._samples.connector.sink._writer import MinimalSender

__all__ = ["MinimalWriteAheadSink", "create_sink"]


@dataclass(frozen=True)
class MinimalWriteAheadSink(WriteAheadSink):
    """Makes a sender for each thread that sends."""

    options: SinkOptions

    def create_sender(self, context: SinkContext) -> Sender:
        return MinimalSender(self.options.path)


def create_sink(options: SinkOptions, schema: pa.Schema) -> MinimalWriteAheadSink:
    """Makes the sink for rows of ``schema``. Driver."""
    return MinimalWriteAheadSink(options)
