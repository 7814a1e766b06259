"""Kafka's fetch request, and its answer as far as it is needed: fetched records are not copied out of it."""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka.protocol.consumer import FetchRequest

from penstock_kafka.client.broker import spelled_id
from penstock_kafka.client.consumer._fetch_settings import FetchSettings

__all__ = ["BY_ID", "BY_NAME", "FetchedPart", "fetch_request", "fetched_parts", "held_back_ms"]

#: Versions that name topics. The first knows transactions (Kafka 0.11); from version 12 on answers have tagged fields.
BY_NAME = (4, 11)
#: The first version that takes topics' ids (Kafka 3.1). A topic that was deleted and re-created has another one.
BY_ID = 13


@dataclass(frozen=True, slots=True)
class FetchedPart:
    """A partition's part of an answer. ``records`` is memory of the answer, which lives as long as one of its parts.

    ``topic`` is what the version calls topics: a name or an id. ``aborted``: producer id and first offset of
    transactions.
    """

    topic: str
    partition: int
    error_code: int
    aborted: Sequence[tuple[int, int]]
    records: memoryview


def fetch_request(
    wanted: Mapping[str, Sequence[tuple[int, int]]], settings: FetchSettings, version: int
) -> FetchRequest:
    """Asks for partitions of topics (by name or id, as the version has it), each from an offset on."""
    fetch = FetchRequest.FetchTopic
    by_id = version >= BY_ID
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
                **({"topic_id": _uuid(topic)} if by_id else {"topic": topic}),
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


def _uuid(topic_id: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.b64decode(topic_id + "=="))


def held_back_ms(answer: memoryview, version: int) -> int:
    """Returns for how long the broker takes no further request, because a quota is used up. Raises ValueError if the
    answer is cut off.
    """
    at = _after_tags(answer, 0) if version >= BY_ID else 0
    return int.from_bytes(_bytes_at(answer, at, 4), "big", signed=True)


def fetched_parts(answer: memoryview, version: int) -> list[FetchedPart]:
    """Returns what an answer (after its header) of that version says. Raises ValueError if it is cut off."""
    try:
        return list(_parts_by_id(answer) if version >= BY_ID else _parts(answer, version))
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


def _parts_by_id(answer: memoryview) -> Iterator[FetchedPart]:
    """Numbers of entries and bytes have as many bytes as they need, and every structure ends with tagged fields."""
    per_partition = struct.Struct(">ihqqq")
    at = _after_tags(answer, 0) + 10  # see held_back_ms; an error of fetch sessions, and the session
    topics, at = _count_at(answer, at)
    for _ in range(topics):
        topic = spelled_id(_bytes_at(answer, at, 16))
        partitions, at = _count_at(answer, at + 16)
        for _ in range(partitions):
            partition, code, *_ = per_partition.unpack_from(answer, at)
            aborted, at = _aborted_at(answer, at + per_partition.size)
            size, at = _count_at(answer, at + 4)  # the replica to read from
            records = _bytes_at(answer, at, size)
            at = _after_tags(answer, at + size)
            yield FetchedPart(topic, partition, code, aborted, records)
        at = _after_tags(answer, at)


def _aborted_at(answer: memoryview, at: int) -> tuple[list[tuple[int, int]], int]:
    count, at = _count_at(answer, at)
    # All at once, as no broker tags them.
    entries = _bytes_at(answer, at, 17 * count)
    if not any(entries[16::17]):
        return [(producer, first) for producer, first, _ in struct.iter_unpack(">qqB", entries)], at + len(entries)
    aborted = []
    for _ in range(count):
        aborted.append(struct.unpack_from(">qq", answer, at))
        at = _after_tags(answer, at + 16)
    return aborted, at


def _after_tags(answer: memoryview, at: int) -> int:
    """Returns where tagged fields end that begin at ``at``."""
    fields, at = _number_at(answer, at)
    for _ in range(fields):
        _, at = _number_at(answer, at)
        size, at = _number_at(answer, at)
        at += len(_bytes_at(answer, at, size))
    return at


def _count_at(answer: memoryview, at: int) -> tuple[int, int]:
    """Returns a length, which is stored with one added so that 0 means none, and where it ends."""
    number, at = _number_at(answer, at)
    return max(0, number - 1), at


def _number_at(answer: memoryview, at: int) -> tuple[int, int]:
    """Returns a number of seven bits for each byte, and where it ends. Raises ValueError for more than five bytes."""
    number = 0
    for index, byte in enumerate(_bytes_at(answer, at, min(5, len(answer) - at))):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, at + index + 1
    raise ValueError(f"a broker's answer is not one to a fetch: there is no number at {at}")


def _bytes_at(answer: memoryview, at: int, size: int) -> memoryview:
    if not 0 <= size <= len(answer) - at:
        raise ValueError(f"a broker's answer is not one to a fetch: {size} bytes are to be at {at} of {len(answer)}")
    return answer[at : at + size]
