"""Kafka's fetch request, and its answer as far as it is needed: fetched records are not copied out of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka.protocol.consumer import FetchRequest

from penstock_kafka.client.consumer._fetch_settings import FetchSettings

__all__ = ["VERSIONS", "FetchedPart", "fetch_request", "fetched_parts", "held_back_ms"]

#: The first that knows transactions (Kafka 0.11); from version 12 on answers have tagged fields, and from 13 on topics
#: are named by ids.
VERSIONS = (4, 11)


@dataclass(frozen=True, slots=True)
class FetchedPart:
    """A partition's part of an answer. ``records`` is memory of the answer, which lives as long as one of its parts.

    ``aborted``: producer id and first offset of transactions.
    """

    topic: str
    partition: int
    error_code: int
    aborted: Sequence[tuple[int, int]]
    records: memoryview


def fetch_request(
    wanted: Mapping[str, Sequence[tuple[int, int]]], settings: FetchSettings, version: int
) -> FetchRequest:
    """Asks for partitions of topics, each from an offset on."""
    fetch = FetchRequest.FetchTopic
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=settings.wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.answer_bytes,
        isolation_level=1 if settings.is_committed else 0,
        session_id=0,
        session_epoch=-1,
        topics=[
            fetch(
                topic=topic,
                partitions=[
                    fetch.FetchPartition(
                        partition=partition,
                        current_leader_epoch=-1,
                        fetch_offset=offset,
                        log_start_offset=-1,
                        partition_max_bytes=settings.partition_bytes,
                    )
                    for partition, offset in partitions
                ],
            )
            for topic, partitions in wanted.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
        version=version,
    )


def held_back_ms(answer: memoryview) -> int:
    """Returns for how long the broker takes no further request, because a quota is used up."""
    return int.from_bytes(answer[:4], "big", signed=True)


def fetched_parts(answer: memoryview, version: int) -> list[FetchedPart]:
    """Returns what an answer (after its header) of that version says. Raises ValueError if it is cut off."""
    try:
        return list(_parts(answer, version))
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"a broker's answer of {len(answer)} bytes is not one to a fetch: {error}") from error


def _parts(answer: memoryview, version: int) -> Iterator[FetchedPart]:
    at = 4  # see held_back_ms
    if version >= 7:
        at += 6  # an error of fetch sessions, which are not used, and the session
    per_partition = struct.Struct(">ihqqq" if version >= 5 else ">ihqq")
    behind_aborted = 4 if version >= 11 else 0  # the replica to read from
    (topics,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", answer, at)
        topic = str(_bytes_at(answer, at + 2, length), "utf-8")
        (partitions,) = struct.unpack_from(">i", answer, at + 2 + length)
        at += 6 + length
        for _ in range(partitions):
            partition, code, *_ = per_partition.unpack_from(answer, at)
            at += per_partition.size
            (count,) = struct.unpack_from(">i", answer, at)
            at += 4
            pairs = _bytes_at(answer, at, 16 * max(count, 0))
            at += len(pairs) + behind_aborted
            (size,) = struct.unpack_from(">i", answer, at)
            at += 4
            records = _bytes_at(answer, at, max(size, 0))
            at += len(records)
            yield FetchedPart(topic, partition, code, list(struct.iter_unpack(">qq", pairs)), records)


def _bytes_at(answer: memoryview, at: int, size: int) -> memoryview:
    if not 0 <= size <= len(answer) - at:
        raise ValueError(f"a broker's answer is not one to a fetch: {size} bytes are to be at {at} of {len(answer)}")
    return answer[at : at + size]
