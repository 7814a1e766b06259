"""A broker's channel: fetches what it leads, ahead of the reader."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from kafka.errors import KafkaConnectionError, KafkaError
from kafka.protocol.consumer import FetchRequest

from penstock.errors import FatalError
from penstock_kafka.client.broker import (
    SILENT_S,
    BrokerConnection,
    Connections,
    ProblemError,
    problem_of_code,
)
from penstock_kafka.client.codec import Scan, modernized, scan
from penstock_kafka.client.consumer._fetch_protocol import (
    BY_ID,
    BY_NAME,
    FetchedPart,
    fetch_request,
    fetched_parts,
    held_back_ms,
)
from penstock_kafka.client.consumer._fetch_settings import FetchSettings
from penstock_kafka.client.consumer._fetches import Fetches
from penstock_kafka.client.consumer._position import FetchedBatches, FetchPosition

__all__ = ["Channel"]

_AT_END_PAUSE_S = 0.1
_WRONG = {
    Scan.CORRUPT: "a record batch does not fit its checksum",
}


class Channel:
    """Fetches what one broker leads, with a thread and a connection of its own, until the reader closes."""

    def __init__(self, node: int, fetches: Fetches, connections: Connections, settings: FetchSettings) -> None:
        self._node = node
        self._fetches = fetches
        self._connections = connections
        self._settings = settings
        #: Made and closed by this channel's thread alone; another may interrupt it at any time.
        self._connection: BrokerConnection | None = None
        self._where = f"broker {node}"
        #: Until when the broker takes no request of ours.
        self._held_until = 0.0
        threading.Thread(target=self._run, name=f"penstock-kafka-fetch-{node}", daemon=True).start()

    def interrupt(self) -> None:
        """Ends its waiting for an answer. Any thread."""
        if (connection := self._connection) is not None:
            connection.interrupt()

    def _run(self) -> None:
        try:
            while positions := self._fetches.due(self._node):
                if (held_s := self._held_until - time.monotonic()) > 0:
                    self._fetches.pause(held_s)
                    continue
                # Who has got least comes first: an answer may be full before the last one's turn.
                self._try_to_fetch(sorted(positions, key=lambda one: len(one.fetched)))
        except Exception as error:
            self._fetches.end(error)
        finally:
            self._drop()

    def _try_to_fetch(self, positions: Sequence[FetchPosition]) -> None:
        try:
            if self._connection is None or self._connection.is_stale:
                self._connect()
            assert self._connection is not None
            self._fetch(self._connection, positions)
        except (KafkaError, OSError) as error:
            was_proven = self._connection is not None and self._connection.is_proven
            self._drop()
            # A broker closes connections that were unused for long: what is wrong shows in a new one.
            if not was_proven:
                self._fetches.forget_leader(positions)
                if not self._fetches.is_closed:
                    self._fetches.report_down(self._where, self._connections.problem_of(error))

    # --- the connection -----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._drop()
        self._connection = self.new_connection()
        if not self._fetches.is_closed:
            host, port = self._connections.address(self._node)
            self._where = f"broker {self._node} at {host}:{port}"
            self._connection.connect(host, port)

    def new_connection(self) -> BrokerConnection:
        """Returns a connection that is not made yet."""
        settings, wait_s = self._settings, self._settings.wait_ms / 1000
        return BrokerConnection(
            self._connections.arguments(), settings.request_timeout_ms / 1000 + wait_s, wait_s + SILENT_S
        )

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- fetching -----------------------------------------------------------------------------------------------------

    def _fetch(self, connection: BrokerConnection, positions: Sequence[FetchPosition]) -> None:
        ids = [position.topic_id or self._connections.leaders.id_of(position.topic) for position in positions]
        if all(ids) and connection.newest_version(FetchRequest) >= BY_ID:
            version, topics = BY_ID, ids
        else:
            version = self._connections.client.version_of(FetchRequest, *BY_NAME)
            topics = [position.topic for position in positions]
        wanted: dict[str, list[tuple[int, int]]] = {}
        for topic, position in zip(topics, positions, strict=True):
            wanted.setdefault(topic, []).append((position.partition, position.fetch_offset))
        answer = connection.ask(
            fetch_request(wanted, self._settings, version), lambda: self._look_for_successors(positions)
        )
        try:
            held_s = held_back_ms(answer, version) / 1000
            found = {(part.topic, part.partition): part for part in fetched_parts(answer, version)}
        except ValueError as error:
            raise FatalError(f"{self._where}: {error}") from error
        if held_s > 0:
            self._held_until = time.monotonic() + held_s
            self._fetches.held_back.note(self._where, held_s)
        for topic, position in zip(topics, positions, strict=True):
            part = found.get((topic, position.partition))
            if part is None:  # the broker has answered only an error for all
                self._fetches.forget_leader([position])
            elif part.error_code:
                self._handle_error(position, part.error_code)
            elif part.records:
                self._accept(position, part)

    def _look_for_successors(self, positions: Sequence[FetchPosition]) -> None:
        """Raises KafkaConnectionError if another broker leads some positions by now, whose leader is forgotten.

        A broker that stands still keeps its connections: only the others know that it has lost its partitions.
        """
        client, leaders = self._connections.client, self._connections.leaders
        topics = {position.topic for position in positions}
        with suppress(KafkaError, OSError, ProblemError):
            client.run(leaders.refresh_metadata, client, topics, SILENT_S * 1000, False, timeout_s=SILENT_S)
        left = set(leaders.have_left(self._node, ((one.topic, one.partition) for one in positions)))
        if left:
            self._fetches.forget_leader([one for one in positions if (one.topic, one.partition) in left])
            raise KafkaConnectionError(f"{self._where} does not answer, and another broker has taken its place")

    def _accept(self, position: FetchPosition, part: FetchedPart) -> None:
        records = part.records
        status, length, following = scan(records)
        if status is Scan.OLD_FORMAT:
            try:
                records, status, length, following = _modern(records, self._settings.most_batch_bytes)
            except ValueError as error:
                self._fetches.report_on(position, "_BAD_MSG", str(error))
                return
        if status not in (Scan.PLAIN, Scan.PACKED):
            self._fetches.report_on(position, "_BAD_MSG", _WRONG[status])
        elif following <= position.fetch_offset:
            position.not_before = time.monotonic() + _AT_END_PAUSE_S
        else:
            is_compressed = status is Scan.PACKED
            batches = FetchedBatches(
                records[:length],
                part.aborted,
                is_compressed=is_compressed,
                most_bytes=self._settings.most_batch_bytes,
            )
            self._fetches.add(position, batches, following)

    def _handle_error(self, position: FetchPosition, code: int) -> None:
        problem = problem_of_code(code)
        with self._fetches.changed:
            if self._fetches.is_current(position):
                if problem.retriable:
                    self._fetches.forget_leader([position])
                else:
                    self._fetches.report_on(position, problem.code, problem.text)


def _modern(records: memoryview, most_bytes: int) -> tuple[memoryview, Scan, int, int]:
    """Returns records of which some are of an old format, all in the new one, and what a look at them says.

    That some are compressed is assumed.
    """
    parts: list[bytes | memoryview] = []
    following = -1
    while len(records):
        found, length, after = scan(records)
        parts.append(records[:length])
        following = max(following, after)
        if found is Scan.OLD_FORMAT:
            old, length, after = modernized(records, most_bytes)
            parts.append(old)
            following = max(following, after)
            if not length:
                break
        elif found in (Scan.PLAIN, Scan.PACKED):
            break
        else:
            return records, found, 0, following
        records = records[length:]
    data = b"".join(parts)
    return memoryview(data), Scan.PACKED, len(data), following
