"""The sink: ties writer, committer and the stored form of committables together."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.sink import Committer, CommittingSinkWriter, SinkContext, TwoPhaseCommitSink, WriterContext
from penstock.testing._samples.sink._options import SinkOptions
from penstock.testing._samples.sink.sink._committable import COMMITTABLE_SERIALIZER
from penstock.testing._samples.sink.sink._committer import FilesCommitter
from penstock.testing._samples.sink.sink._writer import FilesWriter, check_types

__all__ = ["FilesTransactionalSink", "create_sink"]


@dataclass(frozen=True)
class FilesTransactionalSink(TwoPhaseCommitSink[str, None]):
    """Makes a writer for each attempt of a task, and the committer; nothing is carried from batch to batch."""

    options: SinkOptions
    committable_serializer = COMMITTABLE_SERIALIZER

    def validate_schema(self, schema: pa.Schema) -> None:
        """Refuses types before anything is written."""
        check_types(schema)

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return FilesWriter(self.options.path, context)

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return FilesCommitter(self.options.path, context.query_id)


def create_sink(options: SinkOptions, schema: pa.Schema) -> FilesTransactionalSink:
    """Makes the sink for rows of ``schema``. Driver."""
    return FilesTransactionalSink(options)
