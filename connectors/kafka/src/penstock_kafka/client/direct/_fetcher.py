"""Fetches ranges of partitions from their leaders, ahead of whoever takes them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest

from penstock_kafka.client._contracts import PartitionRange
from penstock_kafka.client._problems import Problem
from penstock_kafka.client.direct._connections import borrow, give_back
from penstock_kafka.client.direct._errors import NO_TOPIC, ProblemError, problem_of, problem_of_code
from penstock_kafka.client.direct._fetch_protocol import VERSIONS, FetchedPart, fetch_request, fetched_parts
from penstock_kafka.client.direct._fetch_settings import FetchSettings
from penstock_kafka.client.direct._link import Link
from penstock_kafka.client.direct._unpacking import Parts
from penstock_kafka.client.native._decoder import Aborted, Scan, scan

__all__ = ["Fetcher", "Piece", "Place"]

_log = logging.getLogger("penstock.kafka")
_CONNECT_S = 5.0
_RETRY_S = 0.1
#: How long until an error that does not pass is told again.
_TELL_AGAIN_S = 1.0
#: Of those that nobody asks for.
_MOST_PROBLEMS = 100


class Piece:
    """Whole batches of one partition, as they were fetched. ``plain``: those that can be decoded now."""

    def __init__(self, batches: memoryview, aborted: Sequence[tuple[int, int]], *, is_packed: bool) -> None:
        self.aborted = Aborted(aborted)
        #: What it takes of the queue.
        self.queued_bytes = len(batches)
        self._parts = Parts(batches) if is_packed else None
        self._plain: memoryview | bytearray | None = None if is_packed else batches

    @property
    def plain(self) -> memoryview | bytearray:
        """Raises ValueError for batches that can't be unpacked."""
        if self._plain is None:
            assert self._parts is not None
            self._plain = self._parts.next()
        return self._plain

    def go_on(self) -> bool:
        """Leaves what is plain behind; whether there is more."""
        self._plain = None
        return self._parts is not None and not self._parts.is_done


@dataclass(slots=True, eq=False)
class Place:
    """One range. ``position``: where to fetch, its channel's; ``next``: what to hand over, the reader's.

    ``node`` leads the partition, as far as we know; nothing is done for it before ``not_before``.
    """

    index: int
    topic: str
    partition: int
    end: int
    position: int
    next: int
    node: int | None = None
    pieces: deque[Piece] = field(default_factory=deque)
    not_before: float = 0.0
    missing_since: float = 0.0


class Fetcher:
    """The ranges of one consumer: a thread for each broker that leads some of them, and one that finds the leaders.

    One other thread starts, takes and closes. Memory: ``queued.max.messages.kbytes`` of fetched batches, as they were
    sent, and from each broker one answer of as much again.
    """

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._connections = borrow(settings.connection)
        self._finder: threading.Thread | None = None
        #: Guards what follows, and what is in it.
        self.changed = threading.Condition()
        self.places: dict[tuple[str, int], Place] = {}
        self.problems: deque[Problem] = deque(maxlen=_MOST_PROBLEMS)
        #: Why nothing will come any more.
        self.lost: Problem | None = None
        self.queued_bytes = 0
        self._channels: dict[int, _Channel] = {}
        self._is_closed = False

    # --- the reader ---------------------------------------------------------------------------------------------------

    def start(self, ranges: Sequence[PartitionRange]) -> None:
        """Fetches these from now on, and nothing else."""
        node_of = self._connections.leaders.node_of
        with self.changed:
            self.places = {
                (one.topic, one.partition): Place(
                    i, one.topic, one.partition, one.end, one.start, one.start, node_of(one.topic, one.partition)
                )
                for i, one in enumerate(ranges)
            }
            for place in self.places.values():
                if place.node not in self._channels:
                    place.node = None
            self.problems.clear()
            self.queued_bytes = 0
            if ranges and self._finder is None:
                self._finder = threading.Thread(target=self._find, name="penstock-kafka-find", daemon=True)
                self._finder.start()
            self.changed.notify_all()

    def drop(self, place: Place, *, is_finished: bool) -> None:
        """The first piece of a place was taken; or all that there will be, or is, is not needed any more."""
        with self.changed:
            dropped = list(place.pieces) if is_finished else [place.pieces[0]]
            for one in dropped:
                place.pieces.popleft()
                self.queued_bytes -= one.queued_bytes
            if is_finished:
                self.places.pop((place.topic, place.partition), None)
            self.changed.notify_all()

    def close(self) -> None:
        """Fetches nothing more. Does not wait."""
        with self.changed:
            self._is_closed = True
            self.places = {}
            for channel in self._channels.values():
                channel.cut()
            self.changed.notify_all()
            if self._finder is None:
                give_back(self._connections, useful=True)

    # --- any thread ---------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether nothing is to be fetched any more."""
        return self._is_closed

    def tell(self, problem: Problem) -> None:
        """Has the reader told of it."""
        with self.changed:
            self.problems.append(problem)
            self.changed.notify_all()

    def end(self, error: BaseException) -> None:
        """A thread has ended by an error that is nobody's but ours."""
        _log.error("the Kafka client can't go on", exc_info=error)
        with self.changed:
            self.lost = Problem("_FAIL", f"{type(error).__name__}: {error}", fatal=True)
            self.changed.notify_all()

    def _tell_of(self, place: Place, problem: Problem) -> None:
        place.not_before = time.monotonic() + _TELL_AGAIN_S
        self.tell(problem)

    def _due(self, node: int | None) -> list[Place]:
        """Waits for places of the node that something is to be done for. Empty once it is closed."""
        with self.changed:
            while not self._is_closed:
                now = time.monotonic()
                has_room = node is None or self.queued_bytes < self._settings.queue_bytes
                mine = [one for one in self.places.values() if one.node == node and one.position < one.end]
                if has_room and (due := [one for one in mine if one.not_before <= now]):
                    return due
                later = min((one.not_before for one in mine if one.not_before > now), default=None)
                self.changed.wait(None if later is None else later - now)
            return []

    # --- the finder ---------------------------------------------------------------------------------------------------

    def _find(self) -> None:
        is_useful = True
        try:
            while places := self._due(None):
                is_useful = self._learn({place.topic for place in places})
                with self.changed:
                    again = time.monotonic() + _RETRY_S
                    for place in places:
                        if place.node is None:
                            place.not_before = max(place.not_before, again)
        except Exception as error:
            self.end(error)
        finally:
            give_back(self._connections, useful=is_useful)

    def _learn(self, topics: Collection[str]) -> bool:
        """Finds the leaders of their partitions; whether a broker answered."""
        connections, timeout_ms = self._connections, self._settings.request_timeout_ms
        try:
            connections.open(time.monotonic() + _CONNECT_S)
            connections.run(connections.leaders.learn, connections.manager, topics, timeout_ms, False)
        except ProblemError as error:
            self._tell_down(self._settings.servers, error.problem)
            # Nothing waits for what was refused: it is not tried again at once.
            if not error.timed_out:
                time.sleep(_TELL_AGAIN_S)
            return False
        except (KafkaError, OSError) as error:
            self._tell_down(self._settings.servers, problem_of(error))
            return False
        with self.changed:
            for place in self.places.values():
                if place.node is None and place.topic in topics:
                    self._place(place)
            self.changed.notify_all()
        return True

    def _tell_down(self, where: str, problem: Problem) -> None:
        self.tell(Problem(problem.code, f"{where}: {problem.text}", retriable=problem.retriable))
        if problem.retriable:
            self.tell(Problem("_ALL_BROKERS_DOWN", "all that are needed are down"))

    def _place(self, place: Place) -> None:
        leaders, now = self._connections.leaders, time.monotonic()
        place.node = leaders.node_of(place.topic, place.partition)
        if place.node is not None:
            place.missing_since = 0.0
            if place.node not in self._channels and not self._is_closed:
                self._channels[place.node] = _Channel(self, place.node)
            return
        place.missing_since = place.missing_since or now
        code = leaders.problem_of(place.topic) or NO_TOPIC
        problem = problem_of_code(code, topic=place.topic, partition=place.partition)
        is_missing = code == NO_TOPIC and now - place.missing_since > self._settings.missing_s
        if is_missing or not problem.retriable:
            self._tell_of(place, problem)

    # --- the channels -------------------------------------------------------------------------------------------------

    def due_at(self, node: int) -> list[Place]:
        """What to ask a broker for; waits for it. Empty once there is nothing more to fetch, ever."""
        # Who has got least comes first: an answer may be full before the last one's turn.
        return sorted(self._due(node), key=lambda one: len(one.pieces))

    def fetch(self, link: Link, places: Sequence[Place]) -> None:
        """Asks for them over ``link``. Raises KafkaError or OSError."""
        oldest, newest = VERSIONS
        version = self._connections.manager.broker_version_data.api_version(FetchRequest, oldest, newest)
        wanted: dict[str, list[tuple[int, int]]] = {}
        for place in places:
            wanted.setdefault(place.topic, []).append((place.partition, place.position))
        answer = link.ask(fetch_request(wanted, self._settings, version))
        found = {(part.topic, part.partition): part for part in fetched_parts(answer, version)}
        for place in places:
            part = found.get((place.topic, place.partition))
            if part is None:  # the broker has answered nothing but an error for all
                with self.changed:
                    self._lose(place)
            else:
                self._take(place, part)

    def new_link(self) -> Link:
        """A connection to a broker, which is not made yet."""
        settings = self._settings
        return Link(self._connections.arguments(), (settings.request_timeout_ms + settings.wait_ms) / 1000)

    def address(self, node: int) -> tuple[str, int]:
        """Where the broker is. Raises KafkaError if that is not known any more."""
        return self._connections.address(node)

    def lose(self, places: Sequence[Place], where: str, error: BaseException) -> None:
        """The broker can't be reached: somebody else may lead its partitions."""
        with self.changed:
            for place in places:
                self._lose(place)
            if not self._is_closed:
                self._tell_down(where, problem_of(error))

    def _lose(self, place: Place) -> None:
        place.node = None
        place.not_before = time.monotonic() + _RETRY_S
        self.changed.notify_all()

    def _take(self, place: Place, part: FetchedPart) -> None:
        if part.error_code:
            self._judge(place, part.error_code)
            return
        if not part.records:
            return
        status, length, following = scan(part.records)
        if status not in (Scan.PLAIN, Scan.PACKED):
            self._tell_of(place, Problem("_BAD_MSG", _WRONG[status], place.topic, place.partition, place.position))
            return
        if following <= place.position:
            place.not_before = time.monotonic() + _RETRY_S
            return
        with self.changed:
            if self.places.get((place.topic, place.partition)) is not place:
                return
            place.pieces.append(Piece(part.records[:length], part.aborted, is_packed=status is Scan.PACKED))
            place.position = following
            self.queued_bytes += length
            self.changed.notify_all()

    def _judge(self, place: Place, code: int) -> None:
        problem = problem_of_code(code, topic=place.topic, partition=place.partition)
        with self.changed:
            if self.places.get((place.topic, place.partition)) is not place:
                return
            if problem.retriable:
                self._lose(place)
            else:
                offset = place.position
                self._tell_of(place, Problem(problem.code, problem.text, place.topic, place.partition, offset))


_WRONG = {
    Scan.CORRUPT: "a record batch does not fit its checksum",
    Scan.OLD_FORMAT: "records are of a message format before 2 (Kafka 0.11): read them with the option 'client' python",
}


class _Channel:
    """One broker's thread and connection: asks for all that is due there, again and again."""

    def __init__(self, fetcher: Fetcher, node: int) -> None:
        self._fetcher = fetcher
        self._node = node
        self._link: Link | None = None
        self._where = f"broker {node}"
        threading.Thread(target=self._run, name=f"penstock-kafka-fetch-{node}", daemon=True).start()

    def cut(self) -> None:
        """Ends its waiting. Any thread."""
        if (link := self._link) is not None:
            link.cut()

    def _run(self) -> None:
        try:
            while places := self._fetcher.due_at(self._node):
                self._fetch(places)
        except Exception as error:
            self._fetcher.end(error)
        finally:
            self._drop()

    def _fetch(self, places: Sequence[Place]) -> None:
        try:
            if self._link is None or self._link.is_stale:
                self._connect()
            assert self._link is not None
            self._fetcher.fetch(self._link, places)
        except (KafkaError, OSError) as error:
            was_proven = self._link is not None and self._link.is_proven
            self._drop()
            # A broker closes connections that nobody has used for long: what is wrong shows in a new one.
            if not was_proven:
                self._fetcher.lose(places, self._where, error)

    def _connect(self) -> None:
        self._drop()
        self._link = self._fetcher.new_link()
        if not self._fetcher.is_closed:
            host, port = self._fetcher.address(self._node)
            self._where = f"broker {self._node} at {host}:{port}"
            self._link.connect(host, port)

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
