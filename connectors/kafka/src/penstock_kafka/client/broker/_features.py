"""What a broker has to be able to do for each use: the requests that it has to take, and in which versions.

The one table for source and sink, and for both clients: their driver's side asks the same requests. Brokers say what
they take when a connection is made (ApiVersions), so that what is missing is known at the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.admin.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from penstock_kafka.client._errors import LACKING, Problem
from penstock_kafka.client.broker._errors import ProblemError
from penstock_kafka.client.broker._kafka_python import KafkaPython

__all__ = [
    "COMMITTING_OFFSETS",
    "LISTING_TRANSACTIONS",
    "READING",
    "TRANSACTIONS",
    "WRITING",
    "WRITING_IDEMPOTENTLY",
    "Feature",
    "has",
    "require",
]


@dataclass(frozen=True)
class Feature:
    """``does`` completes "the brokers can't …"; ``requests`` are kafka-python's, with the oldest version that will do.

    ``since`` is the first version of Apache Kafka that has it. ``otherwise`` says what to do without it.
    """

    does: str
    requests: tuple[tuple[Any, int], ...]
    since: str
    otherwise: str


#: Reading records, committed ones only if wanted.
READING = Feature(
    "give records with their transactions",
    ((MetadataRequest, 4), (ListOffsetsRequest, 2), (FetchRequest, 4)),
    "0.11",
    "Use newer brokers",
)
#: What consumer groups have committed, and committing for them.
COMMITTING_OFFSETS = Feature(
    "keep offsets of consumer groups",
    ((FindCoordinatorRequest, 0), (OffsetFetchRequest, 2), (OffsetCommitRequest, 2)),
    "0.10.2",
    "Leave out commitGroupOffsets and group-offsets",
)
_PRODUCING = ((MetadataRequest, 4), (ProduceRequest, 3))
#: Writing records by a producer that numbers nothing: a record that is sent again may be there twice.
WRITING = Feature("take records with headers", _PRODUCING, "0.11", "Use newer brokers")
#: Writing records by an idempotent producer.
WRITING_IDEMPOTENTLY = Feature(
    "take records of an idempotent producer",
    (*_PRODUCING, (InitProducerIdRequest, 0)),
    "0.11",
    "Set kafka.enable.idempotence=false, so that records that are sent again may be there twice, or use newer brokers",
)
#: The stable offsets of a group, version 7, and the list of groups stand in for what LISTING_TRANSACTIONS has.
TRANSACTIONS = Feature(
    "write exactly once",
    (
        *_PRODUCING,
        (FindCoordinatorRequest, 1),
        (InitProducerIdRequest, 0),
        (AddPartitionsToTxnRequest, 0),
        (AddOffsetsToTxnRequest, 0),
        (TxnOffsetCommitRequest, 0),
        (EndTxnRequest, 0),
        (OffsetFetchRequest, 7),
        (ListGroupsRequest, 0),
    ),
    "2.5",
    "Set delivery=at-least-once, or use newer brokers",
)
#: KIP-664.
LISTING_TRANSACTIONS = Feature(
    "list and describe transactions",
    ((ListTransactionsRequest, 0), (DescribeTransactionsRequest, 0), (DescribeProducersRequest, 0)),
    "3.0",
    "Start the query again, which ends what it has left open, or wait until the transactions time out",
)


def has(client: KafkaPython, feature: Feature) -> bool:
    """Returns whether the brokers can do it, as far as the one that was connected first says."""
    return not _lacking(client, feature)


def require(client: KafkaPython, feature: Feature) -> None:
    """Raises :class:`ProblemError` if the brokers can't do it."""
    if lacking := _lacking(client, feature):
        raise ProblemError(
            Problem(
                LACKING,
                f"can't {feature.does}: they don't take {', '.join(lacking)}, which Apache Kafka does from "
                f"{feature.since} on. {feature.otherwise}",
            )
        )


def _lacking(client: KafkaPython, feature: Feature) -> list[str]:
    return [
        f"{request.name.removesuffix('Request')} {version}"
        for request, version in feature.requests
        if not client.takes(request, version)
    ]
