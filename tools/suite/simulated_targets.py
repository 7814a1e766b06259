"""Every target that the commit protocol is simulated with: the core's own, and connectors' sinks on models."""

from __future__ import annotations

from functools import partial

from penstock.testing.simulation import CellTarget, MakeTarget, PieceTarget, SendTarget
from suite.azure_model import AzureTarget, RepeatingAzureTarget
from suite.cassandra_model import CassandraTarget
from suite.file_model import DiskTarget, RepeatingS3Target, S3Target
from suite.gcs_model import GcsTarget, RepeatingGcsTarget
from suite.kafka_model import KafkaTarget
from suite.letters_model import LettersTarget
from suite.pravega_model import PravegaTarget
from suite.union_model import UnionTarget

__all__ = ["TARGETS"]

TARGETS: dict[str, MakeTarget] = {
    "two-phase": PieceTarget,
    "two-phase with carried state": partial(PieceTarget, carries=True),
    "write-ahead": SendTarget,
    "idempotent": CellTarget,
    "two sinks as one": UnionTarget,
    "dead letters": LettersTarget,
    "files on a disk": DiskTarget,
    "files on S3": S3Target,
    "files on S3, requests sent twice": RepeatingS3Target,
    "files on Azure": AzureTarget,
    "files on Azure, requests sent twice": RepeatingAzureTarget,
    "files on Google's store": GcsTarget,
    "files on Google's store, requests sent twice": RepeatingGcsTarget,
    "Cassandra, write-ahead": CassandraTarget,
    "Kafka": KafkaTarget,
    "Pravega": PravegaTarget,
}
