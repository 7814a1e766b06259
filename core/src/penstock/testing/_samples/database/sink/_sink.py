"""The sink: ties writer, committer and the stored form of committables together."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.sink import Committer, CommittingSinkWriter, SinkContext, TwoPhaseCommitSink, WriterContext
from penstock.testing._samples.database._options import SinkOptions
from penstock.testing._samples.database.client import Database
from penstock.testing._samples.database.sink._committable import COMMITTABLE_SERIALIZER
from penstock.testing._samples.database.sink._committer import BankCommitter
from penstock.testing._samples.database.sink._writer import BankWriter, check_types

__all__ = ["BankTransactionalSink", "create_sink"]


@dataclass(frozen=True)
class BankTransactionalSink(TwoPhaseCommitSink[str, None]):
    """Makes a writer for each attempt of a task, and the committer; nothing is carried from batch to batch."""

    options: SinkOptions
    committable_serializer = COMMITTABLE_SERIALIZER

    @property
    def holds_back_readers(self) -> bool:
        """A prepared transaction holds locks until it ends, in most databases."""
        return True

    def validate_schema(self, schema: pa.Schema) -> None:
        """Refuses types before anything is written."""
        check_types(schema)

    def start(self, context: SinkContext) -> BankTransactionalSink:
        Database.create(self.options.path)
        return self

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        return BankWriter(self.options, context)

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return BankCommitter(self.options, context.query_id)


def create_sink(options: SinkOptions, schema: pa.Schema) -> BankTransactionalSink:
    """Makes the sink for rows of ``schema``. Driver."""
    return BankTransactionalSink(options)
