"""Fetches ranges of partitions from their leaders, ahead of whoever takes them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest

from penstock_kafka.client._errors import Code, Problem
from penstock_kafka.client._interfaces import PartitionRange
from penstock_kafka.client.broker import (
    BrokerConnection,
    ProblemError,
    acquire,
    problem_of,
    problem_of_code,
    release,
)
from penstock_kafka.client.codec import Scan, scan
from penstock_kafka.client.consumer._fetch_protocol import VERSIONS, FetchedPart, fetch_request, fetched_parts
from penstock_kafka.client.consumer._fetch_settings import FetchSettings
from penstock_kafka.client.consumer._position import FetchedBatches, FetchPosition

__all__ = ["Fetcher"]

_log = logging.getLogger("penstock.kafka")
_CONNECT_S = 5.0
_RETRY_S = 0.1
#: How long until an error that does not pass is reported again.
_REPORT_AGAIN_S = 1.0
#: Kept at most, if the reader does not ask for them.
_MOST_PROBLEMS = 100


class Fetcher:
    """The ranges of one consumer: a thread for each broker that leads some of them, and one that finds the leaders.

    One other thread starts, takes and closes. Memory: ``queued.max.messages.kbytes`` of fetched batches, as they were
    sent, and from each broker one answer of as much again.
    """

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        #: Thread-safe. The finder releases them when it ends, or close does if there never was one: released earlier,
        #: they could be closed while the finder waits for an answer.
        self._connections = acquire(settings.connection)
        #: The reader's own. Started with the first ranges.
        self._finder: threading.Thread | None = None
        #: Guards everything below. Notified whenever the reader, the finder or a channel may have something to do.
        self.changed = threading.Condition()
        #: What is being read. Replaced by the reader as a whole: a channel that comes back with an answer must find its
        #: position still here, or it would hand over records of the ranges before.
        self.positions: dict[tuple[str, int], FetchPosition] = {}
        #: Appended by any thread, taken by the reader.
        self.problems: deque[Problem] = deque(maxlen=_MOST_PROBLEMS)
        #: Why nothing will come any more. Written by a thread that broke.
        self.fatal: Problem | None = None
        #: Of all that is in ``fetched``. Channels wait while it is above the limit, the reader makes room.
        self.queued_bytes = 0
        #: Made by the finder alone, one for each broker that leads something; they live until the fetcher is closed.
        self._channels: dict[int, _Channel] = {}
        #: Set by close. Read without the lock, too: it never becomes false again.
        self._is_closed = False

    # --- the reader ---------------------------------------------------------------------------------------------------

    def start(self, ranges: Sequence[PartitionRange]) -> None:
        """Fetches these from now on, and nothing else."""
        node_of = self._connections.leaders.node_of
        with self.changed:
            self.positions = {
                (one.topic, one.partition): FetchPosition(
                    i, one.topic, one.partition, one.end, one.start, one.start, node_of(one.topic, one.partition)
                )
                for i, one in enumerate(ranges)
            }
            for position in self.positions.values():
                if position.node not in self._channels:
                    position.node = None
            self.problems.clear()
            self.queued_bytes = 0
            if ranges and self._finder is None:
                self._finder = threading.Thread(target=self._find_leaders, name="penstock-kafka-find", daemon=True)
                self._finder.start()
            self.changed.notify_all()

    def drop(self, position: FetchPosition, *, is_finished: bool) -> None:
        """Drops the first batches of a position, which the reader has taken; all that a finished one has."""
        with self.changed:
            dropped = list(position.fetched) if is_finished else [position.fetched[0]]
            for one in dropped:
                position.fetched.popleft()
                self.queued_bytes -= one.queued_bytes
            if is_finished:
                self.positions.pop((position.topic, position.partition), None)
            self.changed.notify_all()

    def close(self) -> None:
        """Fetches nothing more. Does not wait."""
        with self.changed:
            self._is_closed = True
            self.positions = {}
            for channel in self._channels.values():
                channel.interrupt()
            self.changed.notify_all()
            if self._finder is None:
                release(self._connections, useful=True)

    # --- any thread ---------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether nothing is to be fetched any more."""
        return self._is_closed

    def report(self, problem: Problem) -> None:
        """Reports a problem to the reader."""
        with self.changed:
            self.problems.append(problem)
            self.changed.notify_all()

    def end(self, error: BaseException) -> None:
        """Ends reading because a thread met an unexpected (internal) error."""
        _log.error("the Kafka client can't go on", exc_info=error)
        with self.changed:
            self.fatal = Problem("_FAIL", f"{type(error).__name__}: {error}", fatal=True)
            self.changed.notify_all()

    def _report_on(self, position: FetchPosition, code: str, text: str) -> None:
        position.not_before = time.monotonic() + _REPORT_AGAIN_S
        self.report(Problem(code, text, position.topic, position.partition, position.fetch_offset))

    def _due(self, node: int | None) -> list[FetchPosition]:
        """Waits until something is to be done for positions of the node. Returns none once the fetcher is closed."""
        with self.changed:
            while not self._is_closed:
                now = time.monotonic()
                has_room = node is None or self.queued_bytes < self._settings.queue_bytes
                mine = [
                    one for one in self.positions.values() if one.node == node and one.fetch_offset < one.end_offset
                ]
                if has_room and (due := [one for one in mine if one.not_before <= now]):
                    return due
                later = min((one.not_before for one in mine if one.not_before > now), default=None)
                self.changed.wait(None if later is None else later - now)
            return []

    # --- the finder ---------------------------------------------------------------------------------------------------

    def _find_leaders(self) -> None:
        is_useful = True
        try:
            while positions := self._due(None):
                is_useful = self._refresh_metadata({position.topic for position in positions})
                with self.changed:
                    again = time.monotonic() + _RETRY_S
                    for position in positions:
                        if position.node is None:
                            position.not_before = max(position.not_before, again)
        except Exception as error:
            self.end(error)
        finally:
            release(self._connections, useful=is_useful)

    def _refresh_metadata(self, topics: Collection[str]) -> bool:
        """Finds the leaders of the topics' partitions. Returns whether a broker answered."""
        connections, timeout_ms = self._connections, self._settings.request_timeout_ms
        try:
            connections.open(time.monotonic() + _CONNECT_S)
            connections.client.run(connections.leaders.refresh_metadata, connections.client, topics, timeout_ms, False)
        except ProblemError as error:
            self._report_down(self._settings.servers, error.problem)
            # Nothing waits for what was refused: it is not tried again at once.
            if not error.timed_out:
                time.sleep(_REPORT_AGAIN_S)
            return False
        except (KafkaError, OSError) as error:
            self._report_down(self._settings.servers, problem_of(error))
            return False
        with self.changed:
            for position in self.positions.values():
                if position.node is None and position.topic in topics:
                    self._find_leader(position)
            self.changed.notify_all()
        return True

    def _report_down(self, where: str, problem: Problem) -> None:
        self.report(Problem(problem.code, f"{where}: {problem.text}", retriable=problem.retriable))
        if problem.retriable:
            self.report(Problem("_ALL_BROKERS_DOWN", "all that are needed are down"))

    def _find_leader(self, position: FetchPosition) -> None:
        leaders, now = self._connections.leaders, time.monotonic()
        position.node = leaders.node_of(position.topic, position.partition)
        if position.node is not None:
            position.missing_since = 0.0
            if position.node not in self._channels and not self._is_closed:
                self._channels[position.node] = _Channel(self, position.node)
            return
        position.missing_since = position.missing_since or now
        code = leaders.problem_of(position.topic) or Code.UNKNOWN_TOPIC_OR_PARTITION
        problem = problem_of_code(code)
        is_missing = code == Code.UNKNOWN_TOPIC_OR_PARTITION and now - position.missing_since > self._settings.missing_s
        if is_missing or not problem.retriable:
            self._report_on(position, problem.code, problem.text)

    # --- the channels -------------------------------------------------------------------------------------------------

    def due_at(self, node: int) -> list[FetchPosition]:
        """Waits until there is something to ask a broker for. Returns nothing once the fetcher is closed."""
        # Who has got least comes first: an answer may be full before the last one's turn.
        return sorted(self._due(node), key=lambda one: len(one.fetched))

    def fetch(self, connection: BrokerConnection, positions: Sequence[FetchPosition]) -> None:
        """Asks for records of the positions. Called by their channel. Raises KafkaError or OSError."""
        oldest, newest = VERSIONS
        version = self._connections.client.version_of(FetchRequest, oldest, newest)
        wanted: dict[str, list[tuple[int, int]]] = {}
        for position in positions:
            wanted.setdefault(position.topic, []).append((position.partition, position.fetch_offset))
        answer = connection.ask(fetch_request(wanted, self._settings, version))
        found = {(part.topic, part.partition): part for part in fetched_parts(answer, version)}
        for position in positions:
            part = found.get((position.topic, position.partition))
            if part is None:  # the broker has answered nothing but an error for all
                with self.changed:
                    self._forget_leader(position)
            else:
                self._accept(position, part)

    def new_connection(self) -> BrokerConnection:
        """Returns a connection to a broker, which is not made yet."""
        settings = self._settings
        return BrokerConnection(self._connections.arguments(), (settings.request_timeout_ms + settings.wait_ms) / 1000)

    def address(self, node: int) -> tuple[str, int]:
        """Returns where the broker is. Raises KafkaError if that is not known any more."""
        return self._connections.address(node)

    def fail(self, positions: Sequence[FetchPosition], where: str, error: BaseException) -> None:
        """Gives the positions back to the finder: their broker can't be reached, and another may lead them by now."""
        with self.changed:
            for position in positions:
                self._forget_leader(position)
            if not self._is_closed:
                self._report_down(where, problem_of(error))

    def _forget_leader(self, position: FetchPosition) -> None:
        position.node = None
        position.not_before = time.monotonic() + _RETRY_S
        self.changed.notify_all()

    def _accept(self, position: FetchPosition, part: FetchedPart) -> None:
        if part.error_code:
            self._handle_error(position, part.error_code)
            return
        if not part.records:
            return
        status, length, following = scan(part.records)
        if status not in (Scan.PLAIN, Scan.PACKED):
            self._report_on(position, "_BAD_MSG", _WRONG[status])
            return
        if following <= position.fetch_offset:
            position.not_before = time.monotonic() + _RETRY_S
            return
        with self.changed:
            if self.positions.get((position.topic, position.partition)) is not position:
                return  # the reader has gone on to other ranges meanwhile
            is_compressed = status is Scan.PACKED
            position.fetched.append(FetchedBatches(part.records[:length], part.aborted, is_compressed=is_compressed))
            position.fetch_offset = following
            self.queued_bytes += length
            self.changed.notify_all()

    def _handle_error(self, position: FetchPosition, code: int) -> None:
        problem = problem_of_code(code)
        with self.changed:
            if self.positions.get((position.topic, position.partition)) is not position:
                return
            if problem.retriable:
                self._forget_leader(position)
            else:
                self._report_on(position, problem.code, problem.text)


_WRONG = {
    Scan.CORRUPT: "a record batch does not fit its checksum",
    Scan.OLD_FORMAT: "records are of a message format before 2 (Kafka 0.11): read them with client=librdkafka",
}


class _Channel:
    """Fetches what one broker leads, with a thread and a connection of its own, until the fetcher is closed."""

    def __init__(self, fetcher: Fetcher, node: int) -> None:
        self._fetcher = fetcher
        self._node = node
        #: Made and closed by this channel's thread alone; another may interrupt it at any time.
        self._connection: BrokerConnection | None = None
        self._where = f"broker {node}"
        threading.Thread(target=self._run, name=f"penstock-kafka-fetch-{node}", daemon=True).start()

    def interrupt(self) -> None:
        """Ends its waiting for an answer. Any thread."""
        if (connection := self._connection) is not None:
            connection.interrupt()

    def _run(self) -> None:
        try:
            while positions := self._fetcher.due_at(self._node):
                self._fetch(positions)
        except Exception as error:
            self._fetcher.end(error)
        finally:
            self._drop()

    def _fetch(self, positions: Sequence[FetchPosition]) -> None:
        try:
            if self._connection is None or self._connection.is_stale:
                self._connect()
            assert self._connection is not None
            self._fetcher.fetch(self._connection, positions)
        except (KafkaError, OSError) as error:
            was_proven = self._connection is not None and self._connection.is_proven
            self._drop()
            # A broker closes connections that nobody has used for long: what is wrong shows in a new one.
            if not was_proven:
                self._fetcher.fail(positions, self._where, error)

    def _connect(self) -> None:
        self._drop()
        self._connection = self._fetcher.new_connection()
        if not self._fetcher.is_closed:
            host, port = self._fetcher.address(self._node)
            self._where = f"broker {self._node} at {host}:{port}"
            self._connection.connect(host, port)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
