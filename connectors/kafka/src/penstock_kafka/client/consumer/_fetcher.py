"""Fetches ranges of partitions from their leaders, ahead of the reader that takes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence

from kafka.errors import KafkaError

from penstock_kafka.client._errors import TOPIC_REPLACED, Code
from penstock_kafka.client._interfaces import PartitionRange
from penstock_kafka.client.broker import ProblemError, acquire, problem_of_code, release
from penstock_kafka.client.consumer._channel import Channel
from penstock_kafka.client.consumer._fetch_settings import FetchSettings
from penstock_kafka.client.consumer._fetches import Fetches
from penstock_kafka.client.consumer._position import FetchPosition

__all__ = ["Fetcher"]

_CONNECT_S = 5.0
_RETRY_S = 0.1
_REFUSED_PAUSE_S = 1.0


class Fetcher:
    """The ranges of one consumer: a thread for each broker that leads some of them, and one that finds the leaders.

    One other thread, the reader, starts, takes and closes. Memory: ``queued.max.messages.kbytes`` of fetched batches,
    as they were sent, and from each broker one answer of as much again.
    """

    def __init__(self, settings: FetchSettings) -> None:
        self.fetches = Fetches(settings.queue_bytes)
        self._settings = settings
        #: Thread-safe. The finder releases them when it ends, or close does if there never was one: released earlier,
        #: they could be closed while the finder waits for an answer.
        self._connections = acquire(settings.connection)
        #: The reader's own. Started with the first ranges.
        self._finder: threading.Thread | None = None
        #: Made by the finder alone, one for each broker that leads something, under the lock of ``fetches``; they live
        #: until the fetcher is closed.
        self._channels: dict[int, Channel] = {}

    # --- the reader ---------------------------------------------------------------------------------------------------

    def start(self, ranges: Sequence[PartitionRange]) -> None:
        """Fetches these from now on, and nothing else."""
        with self.fetches.changed:
            positions = []
            for i, one in enumerate(ranges):
                node = self._connections.leaders.node_of(one.topic, one.partition)
                leader = node if node in self._channels else None
                positions.append(
                    FetchPosition(i, one.topic, one.topic_id, one.partition, one.end, one.start, one.start, leader)
                )
            self.fetches.set(positions)
            if ranges and self._finder is None:
                self._finder = threading.Thread(target=self._find_leaders, name="penstock-kafka-find", daemon=True)
                self._finder.start()

    def close(self) -> None:
        """Fetches nothing more. Does not wait."""
        with self.fetches.changed:
            self.fetches.is_closed = True
            self.fetches.set([])
            for channel in self._channels.values():
                channel.interrupt()
            if self._finder is None:
                release(self._connections, useful=True)

    # --- the finder ---------------------------------------------------------------------------------------------------

    def _find_leaders(self) -> None:
        is_useful = True
        try:
            while positions := self.fetches.due(None):
                is_useful = self._refresh_metadata({position.topic for position in positions})
                with self.fetches.changed:
                    again = time.monotonic() + _RETRY_S
                    for position in positions:
                        if position.node is None:
                            position.not_before = max(position.not_before, again)
        except Exception as error:
            self.fetches.end(error)
        finally:
            release(self._connections, useful=is_useful)

    def _refresh_metadata(self, topics: Collection[str]) -> bool:
        """Finds the leaders of the topics' partitions. Returns whether a broker answered."""
        connections, timeout_ms = self._connections, self._settings.request_timeout_ms
        try:
            connections.open(time.monotonic() + _CONNECT_S)
            connections.client.run(connections.leaders.refresh_metadata, connections.client, topics, timeout_ms, False)
        except ProblemError as error:
            self.fetches.report_down(self._settings.servers, error.problem)
            # Nothing waits for what was refused: it is not tried again at once.
            if not error.timed_out:
                time.sleep(_REFUSED_PAUSE_S)
            return False
        except (KafkaError, OSError) as error:
            self.fetches.report_down(self._settings.servers, connections.problem_of(error))
            return False
        with self.fetches.changed:
            for position in self.fetches.positions.values():
                if position.node is None and position.topic in topics:
                    self._find_leader(position)
            self.fetches.changed.notify_all()
        return True

    def _find_leader(self, position: FetchPosition) -> None:
        leaders, now = self._connections.leaders, time.monotonic()
        topic_id = leaders.id_of(position.topic)
        if position.topic_id and topic_id and position.topic_id != topic_id:
            self.fetches.report_on(position, TOPIC_REPLACED, f"id {position.topic_id} is now {topic_id}")
            return
        position.node = leaders.node_of(position.topic, position.partition)
        if position.node is not None:
            position.missing_since = 0.0
            if position.node not in self._channels and not self.fetches.is_closed:
                self._channels[position.node] = Channel(position.node, self.fetches, self._connections, self._settings)
            return
        position.missing_since = position.missing_since or now
        code = leaders.problem_of(position.topic) or Code.UNKNOWN_TOPIC_OR_PARTITION
        problem = problem_of_code(code)
        is_missing = code == Code.UNKNOWN_TOPIC_OR_PARTITION and now - position.missing_since > self._settings.missing_s
        if is_missing or not problem.retriable:
            self.fetches.report_on(position, problem.code, problem.text)
