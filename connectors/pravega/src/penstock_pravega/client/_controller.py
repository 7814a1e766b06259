"""The controller: streams, segments and transactions, asked by gRPC. Every call has a time limit."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from penstock.errors import BadConfigurationError, FatalError, PenstockError, RetriableError
from penstock.reach import Seen, look_at_all
from penstock_pravega._error_codes import WRONG_PORT
from penstock_pravega.client._endpoint import ControllerSettings, certificate_refused
from penstock_pravega.client._grpc import grpc
from penstock_pravega.client._messages import METHODS, SERVICE, message
from penstock_pravega.client._names import epoch_of, number_of

__all__ = ["Controller", "KeyRange", "PingAnswer", "StreamPolicy", "TransactionState", "UnknownStreamError"]

_MASK = (1 << 64) - 1
#: Says "no time is noted" in a commit.
_NO_TIME = -(1 << 63)
#: What a token in an answer is to permit, which decides what the caller has to be permitted.
_NONE, _READ, _READ_WRITE = 1, 3, 5
_PAUSE_S = 0.2
#: Of a time that a writer notes; 1 and 2 refuse the time and the position.
_INTERNAL_ERROR = 3
_LARGEST_ANSWER = 64 << 20
_TRANSIENT = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "RESOURCE_EXHAUSTED", "CANCELLED", "INTERNAL")
_REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED")
#: What gRPC says of a certificate, as a reason for not being available.
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification Check failed")


_ADVICE = {
    "tls": "write tls://host:port in the option controller, or name the port without TLS",
    "plain": "write tcp://host:port in the option controller, or name the port with TLS",
    "other": "correct the option controller",
}


class UnknownStreamError(BadConfigurationError):
    """There is no such stream, or no such segment of it."""


class TransactionState(Enum):
    """What the controller knows of a transaction; unknown: it has forgotten it, or never had it."""

    UNKNOWN = 0
    OPEN = 1
    COMMITTING = 2
    COMMITTED = 3
    ABORTING = 4
    ABORTED = 5


class PingAnswer(Enum):
    """The answer to a request to renew a lease."""

    OK = 0
    LEASE_TOO_LARGE = 1
    MAX_EXECUTION_TIME_EXCEEDED = 2
    SCALE_GRACE_TIME_EXCEEDED = 3
    DISCONNECTED = 4
    COMMITTED = 5
    ABORTED = 6
    UNKNOWN = 7


@dataclass(frozen=True)
class KeyRange:
    """The part of the key space, 0 to 1, that a segment takes: ``low`` inclusive, ``high`` exclusive (except 1)."""

    low: float
    high: float


@dataclass(frozen=True)
class StreamPolicy:
    """How a stream is made. ``target_rate`` (with ``scale_by`` "events" or "kbytes" per second and segment) scales it
    automatically. Retention by time (ms) or by size (bytes).
    """

    segments: int = 1
    scale_by: str | None = None
    target_rate: int = 0
    scale_factor: int = 2
    retention_ms: int | None = None
    retention_bytes: int | None = None


class Controller:
    """Calls of the service, one method for each that is used. Thread-safe. Not to be used after a fork.

    Connects with the first call, and again with the first after :meth:`close`.

    A stream is ``scope`` and ``stream``; a cut maps segment id → offset; a transaction id is an unsigned 128-bit
    number. Every method raises :class:`RetriableError` if no controller answers in time,
    :class:`BadConfigurationError` if it refuses, :class:`UnknownStreamError` for what does not exist.
    """

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._was_reached = False
        self._looked: list[Seen | None] = []

    def close(self) -> None:
        """Ends the connection. A call in flight is made again."""
        self.__dict__.pop("_stubs", None)
        channel = self.__dict__.pop("_channel", None)
        if channel is not None:
            channel.close()

    # --- scopes and streams -------------------------------------------------------------------------------------------

    def list_scopes(self) -> list[str]:
        """Returns the names of the first scopes."""
        answer = self._call(
            "listScopes", message("ScopesRequest", continuationToken=message("ContinuationToken")), "listing scopes"
        )
        return list(answer.scopes)

    def create_scope(self, scope: str) -> bool:
        """Creates a scope. Returns False if it exists already."""
        status = self._call("createScope", message("ScopeInfo", scope=scope), f"making scope '{scope}'").status
        return self._made(status, 2, f"scope '{scope}'")

    def stream_exists(self, scope: str, stream: str) -> bool:
        """Returns whether there is such a stream."""
        return bool(self._call("checkStreamExists", self._info(scope, stream), f"looking for {scope}/{stream}").exists)

    def create_stream(
        self, scope: str, stream: str, *, segments: int | None = None, policy: StreamPolicy | None = None
    ) -> bool:
        """Creates a stream in an existing scope. Returns False if it exists already."""
        policy = policy or StreamPolicy(segments or 1)
        scaling = message(
            "ScalingPolicy",
            scaleType={None: 0, "kbytes": 1, "events": 2}[policy.scale_by],
            targetRate=policy.target_rate,
            scaleFactor=policy.scale_factor if policy.scale_by else 0,
            minNumSegments=policy.segments,
        )
        config = message("StreamConfig", streamInfo=self._info(scope, stream), scalingPolicy=scaling)
        if policy.retention_ms is not None:
            config.retentionPolicy.retentionType, config.retentionPolicy.retentionParam = 1, policy.retention_ms
        elif policy.retention_bytes is not None:
            config.retentionPolicy.retentionType, config.retentionPolicy.retentionParam = 2, policy.retention_bytes
        status = self._call("createStream", config, f"making stream {scope}/{stream}").status
        if status == 3:
            raise UnknownStreamError(f"making stream {scope}/{stream}: there is no scope '{scope}'")
        return self._made(status, 2, f"stream {scope}/{stream}")

    @staticmethod
    def _made(status: int, existed: int, what: str) -> bool:
        if status == 1:
            raise RetriableError(f"the controller could not make {what} now")
        if status not in (0, existed):
            raise BadConfigurationError(f"the controller refuses to make {what} (status {status}): check its name")
        return status == 0

    def seal_stream(self, scope: str, stream: str) -> None:
        """Seals a stream: nothing more can be written to it."""
        self._updated("sealStream", self._info(scope, stream), f"sealing {scope}/{stream}")

    def delete_stream(self, scope: str, stream: str) -> None:
        """Deletes a sealed stream."""
        self._updated("deleteStream", self._info(scope, stream), f"deleting {scope}/{stream}")

    def truncate_stream(self, scope: str, stream: str, cut: Mapping[int, int]) -> None:
        """Drops everything before ``cut``."""
        self._updated("truncateStream", self._cut(scope, stream, cut), f"truncating {scope}/{stream}")

    def _updated(self, method: str, request: Any, doing: str) -> None:
        status = self._call(method, request, doing).status
        if status == 1:
            raise RetriableError(f"{doing}: the controller could not do it now")
        if status != 0:
            raise UnknownStreamError(f"{doing}: refused, it does not exist or is in another state (status {status})")

    # --- segments -----------------------------------------------------------------------------------------------------

    def current_segments(self, scope: str, stream: str) -> dict[int, KeyRange]:
        """Returns the segments that are written to now; none for a stream that is sealed."""
        request = self._without_token(scope, stream)
        answer = self._call("getCurrentSegments", request, f"asking for segments of {scope}/{stream}")
        return _ranges(answer.segmentRanges)

    def epoch_segments(self, scope: str, stream: str, epoch: int) -> dict[int, KeyRange]:
        """Returns the segments that were written to in ``epoch``."""
        request = message("GetEpochSegmentsRequest", streamInfo=self._info(scope, stream), epoch=epoch)
        answer = self._call("getEpochSegments", request, f"asking for segments of {scope}/{stream}, epoch {epoch}")
        return _ranges(answer.segmentRanges)

    def head_cut(self, scope: str, stream: str) -> dict[int, int]:
        """Returns where the stream begins: after what was truncated. (The service ignores the time in the request.)"""
        request = message("GetSegmentsRequest", streamInfo=self._without_token(scope, stream))
        answer = self._call("getSegments", request, f"asking for the head of {scope}/{stream}")
        return {location.segmentId.segmentId: location.offset for location in answer.segments}

    def successors(self, scope: str, stream: str, segment: int) -> dict[int, list[int]]:
        """Returns what replaced a sealed segment: successor → all segments that it replaces. Empty: nothing (yet)."""
        answer = self._call(
            "getSegmentsImmediatelyFollowing",
            self._segment(scope, stream, segment),
            f"asking for successors of a segment of {scope}/{stream}",
        )
        return {entry.segment.segmentId.segmentId: list(entry.value) for entry in answer.segments}

    def segments_between(self, scope: str, stream: str, start: Mapping[int, int], end: Mapping[int, int]) -> list[int]:
        """Returns every segment that has a place between two cuts, by epoch; some have nothing in it.

        Raises BadConfigurationError if ``end`` is not after ``start``, or one of the two is not of this stream.
        """
        request = message("StreamCutRange", streamInfo=self._info(scope, stream), to=_entries(end))
        getattr(request, "from").extend(_entries(start))
        doing = f"asking for segments of {scope}/{stream} between two stream cuts"
        try:
            answer = self._call("getSegmentsBetween", request, doing)
        except FatalError as error:
            raise BadConfigurationError(
                f"{doing}: refused; the end is before the start, or one of the two is not a cut of it ({error})"
            ) from None
        return sorted((one.segmentId for one in answer.segments), key=lambda s: (epoch_of(s), number_of(s)))

    def locate(self, scope: str, stream: str, segment: int) -> tuple[str, int]:
        """Host and port of the segment store that has the segment, its transactions' included."""
        answer = self._call(
            "getURI", self._segment(scope, stream, segment), f"asking where a segment of {scope}/{stream} is"
        )
        return answer.endpoint, answer.port

    def scale(
        self, scope: str, stream: str, sealed: list[int], ranges: list[tuple[float, float]], patience_s: float = 30
    ) -> None:
        """Replaces segments by others with these key ranges; returns when that is done."""
        request = message(
            "ScaleRequest",
            streamInfo=self._info(scope, stream),
            sealedSegments=sealed,
            newKeyRanges=[message("KeyRangeEntry", start=low, end=high) for low, high in ranges],
            scaleTimestamp=int(time.time() * 1000),
        )
        doing = f"scaling {scope}/{stream}"
        answer = self._call("scale", request, doing)
        if answer.status != 0:
            raise BadConfigurationError(f"{doing}: refused (status {answer.status})")
        deadline = time.monotonic() + patience_s
        asked = message("ScaleStatusRequest", streamInfo=self._info(scope, stream), epoch=answer.epoch)
        while self._call("checkScale", asked, doing).status != 1:
            if time.monotonic() > deadline:
                raise RetriableError(f"{doing} takes longer than {patience_s:.0f} s")
            time.sleep(0.02)

    def delegation_token(self, scope: str, stream: str, *, writes: bool = True) -> str:
        """Returns what segment stores want to see; empty where they ask for nothing.

        Without ``writes`` it permits to read, and the permission READ on the stream is enough to get it.
        """
        request = self._info(scope, stream)
        request.accessOperation = _READ_WRITE if writes else _READ
        return str(self._call("getDelegationToken", request, f"asking for access to {scope}/{stream}").delegationToken)

    # --- transactions -------------------------------------------------------------------------------------------------

    def begin_transaction(self, scope: str, stream: str, lease_ms: int) -> tuple[int, dict[int, KeyRange]]:
        """Returns the id of a new transaction and the segments that it has; open for ``lease_ms`` unless pinged."""
        request = message("CreateTxnRequest", streamInfo=self._info(scope, stream), lease=lease_ms)
        answer = self._call("createTransaction", request, f"beginning a transaction on {scope}/{stream}")
        transaction = (answer.txnId.highBits & _MASK) << 64 | answer.txnId.lowBits & _MASK
        return transaction, _ranges(answer.activeSegments)

    def lease_is_allowed(self, scope: str, stream: str, lease_ms: int) -> bool:
        """Tries it: begins a transaction and aborts it."""
        request = message("CreateTxnRequest", streamInfo=self._info(scope, stream), lease=lease_ms)
        doing = f"beginning a transaction of {lease_ms} ms on {scope}/{stream}"
        try:
            answer = self._call("createTransaction", request, doing)
        except UnknownStreamError:
            raise
        except FatalError:
            return False
        transaction = (answer.txnId.highBits & _MASK) << 64 | answer.txnId.lowBits & _MASK
        self.abort_transaction(scope, stream, transaction)
        return True

    def ping_transaction(self, scope: str, stream: str, transaction: int, lease_ms: int) -> PingAnswer:
        """Renews a transaction's lease for ``lease_ms`` from now."""
        request = message(
            "PingTxnRequest", streamInfo=self._info(scope, stream), txnId=_transaction(transaction), lease=lease_ms
        )
        return PingAnswer(self._call("pingTransaction", request, f"renewing a lease on {scope}/{stream}").status)

    def commit_transaction(self, scope: str, stream: str, transaction: int, time_ms: int | None = None) -> bool:
        """Starts a commit. Returns True also if it was started or done before, False if the transaction is over."""
        request = self._end(scope, stream, transaction)
        request.timestamp = _NO_TIME if time_ms is None else time_ms
        return bool(
            self._call("commitTransaction", request, f"committing a transaction on {scope}/{stream}").status == 0
        )

    def abort_transaction(self, scope: str, stream: str, transaction: int) -> bool:
        """Starts an abort. Returns False if the transaction can't be aborted (any more)."""
        request = self._end(scope, stream, transaction)
        return bool(self._call("abortTransaction", request, f"aborting a transaction on {scope}/{stream}").status == 0)

    def transaction_state(self, scope: str, stream: str, transaction: int) -> TransactionState:
        """Returns what the controller knows of a transaction."""
        request = self._end(scope, stream, transaction)
        doing = f"asking for a transaction on {scope}/{stream}"
        return TransactionState(self._call("checkTransactionState", request, doing).state)

    def note_time(self, scope: str, stream: str, writer: str, cut: Mapping[int, int], time_ms: int) -> bool:
        """Notes that at ``cut``, ``writer`` has written everything up to ``time_ms``.

        Returns False if the time or the cut is refused: there is a later time, or the stream is being scaled. Raises
        RetriableError if the controller could not note it.
        """
        request = message(
            "TimestampFromWriter", writer=writer, position=self._cut(scope, stream, cut), timestamp=time_ms
        )
        doing = f"noting a time on {scope}/{stream}"
        for _ in range(self._settings.tries):
            result = self._call("noteTimestampFromWriter", request, doing).result
            if result != _INTERNAL_ERROR:
                return bool(result == 0)
            time.sleep(_PAUSE_S)
        raise RetriableError(f"{doing}: the controller could not do it now")

    # --- calls --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _info(scope: str, stream: str) -> Any:
        return message("StreamInfo", scope=scope, stream=stream)

    def _without_token(self, scope: str, stream: str) -> Any:
        """Names a stream whose answer needs no token for writers, so that READ on the stream is enough."""
        return message("StreamInfo", scope=scope, stream=stream, accessOperation=_NONE)

    def _segment(self, scope: str, stream: str, segment: int) -> Any:
        return message("SegmentId", streamInfo=self._info(scope, stream), segmentId=segment)

    def _cut(self, scope: str, stream: str, cut: Mapping[int, int]) -> Any:
        return message("StreamCut", streamInfo=self._info(scope, stream), cut=_entries(cut))

    def _end(self, scope: str, stream: str, transaction: int) -> Any:
        return message("TxnRequest", streamInfo=self._info(scope, stream), txnId=_transaction(transaction))

    @cached_property
    def _channel(self) -> Any:
        addresses = self._settings.addresses
        target = addresses[0] if len(addresses) == 1 else f"ipv4:{','.join(addresses)}"
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", _LARGEST_ANSWER),
            ("grpc.enable_http_proxy", 0),
            # A controller that restarts is tried again soon.
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.initial_reconnect_backoff_ms", 100),
            # Else a new channel would use the connection of its predecessor.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if not self._settings.is_secure:
            return grpc.insecure_channel(target, options)
        if not self._settings.validate_host:
            options.append(("grpc.ssl_target_name_override", self._certified_name(addresses[0])))
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(self._settings.certificates()), options)

    def _certified_name(self, address: str) -> str:
        """Returns the name in the server's certificate, which has to be checked in every other respect."""
        context = self._settings.tls_context()
        host, _, port = address.rpartition(":")
        assert context is not None
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), self._settings.timeout_s) as plain,
                context.wrap_socket(plain, server_hostname=host.strip("[]")) as secure,
            ):
                certificate: Any = secure.getpeercert() or {}
        except ssl.SSLCertVerificationError as error:
            raise certificate_refused(f"the controller at {address}", error.verify_message) from None
        except OSError as error:
            raise RetriableError(f"the controller at {address} does not answer by TLS: {error}") from None
        for kind, name in certificate.get("subjectAltName", ()):
            if kind in ("DNS", "IP Address"):
                return str(name)
        return str(
            next((value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"), host)
        )

    @cached_property
    def _stubs(self) -> dict[str, Any]:
        return {
            method: self._channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=type(message(request)).SerializeToString,
                response_deserializer=type(message(answer)).FromString,
            )
            for method, (request, answer) in METHODS.items()
        }

    def _call(self, method: str, request: Any, doing: str) -> Any:
        """Makes a call, again after a passing failure: every method used here is idempotent or safe to repeat."""
        credentials, renewed = self._settings.credentials, False
        for left in reversed(range(self._settings.tries)):
            header = credentials.header if credentials is not None else ""
            metadata = [("authorization", header)] if header else []
            stubs = self._stubs
            try:
                answer = stubs[method](request, timeout=self._settings.timeout_s, metadata=metadata)
            except grpc.RpcError as error:
                translated = self._translated(error, doing)
                if error.code().name == "DEADLINE_EXCEEDED":
                    self._give_up(stubs)
                if error.code().name == "UNAUTHENTICATED" and credentials is not None and not renewed:
                    renewed = credentials.renew(header)
                    if left and renewed:
                        continue
                if not left or not isinstance(translated, RetriableError):
                    raise translated from None
            else:
                self._was_reached = True
                return answer
            time.sleep(_PAUSE_S)
        raise AssertionError

    def _give_up(self, stubs: dict[str, Any]) -> None:
        """Ends the connection, unless another thread has. Where the other side is gone without a word, gRPC keeps it.

        (It would notice by pings; servers of gRPC end connections that ping more than once in five minutes.)
        """
        if self.__dict__.get("_stubs") is stubs:
            self.close()

    def _translated(self, error: Any, doing: str) -> PenstockError:
        code = error.code().name
        said = f"{error.details() or 'no reason given'} ({code})"
        if reason := next((reason for reason in _UNTRUSTED if reason in said), None):
            return certificate_refused(f"the controller at {self._settings.uri}", reason)
        if code in _REFUSED:
            return BadConfigurationError(f"{doing}: the controller at {self._settings.uri} refuses: {said}")
        if code == "NOT_FOUND":
            return UnknownStreamError(f"{doing}: it does not exist: {said}")
        if code not in _TRANSIENT and self._was_reached:
            return FatalError(f"{doing}: {said}")
        seen = None if self._was_reached else self._seen()
        where = f"{doing}: no answer from the controller at {self._settings.uri}"
        if seen is not None and not seen.may_pass:
            return BadConfigurationError(f"{where}: {seen.text}: {_ADVICE[seen.kind]}", error_code=WRONG_PORT)
        if seen is not None:
            return RetriableError(f"{where}: {seen.text}. Correct the option controller, or try again once it answers")
        return RetriableError(f"{where}: {said}") if code in _TRANSIENT else FatalError(f"{doing}: {said}")

    def _seen(self) -> Seen | None:
        """Returns what is wrong at the controller's addresses. Looks once."""
        if not self._looked:
            addresses, tls = self._settings.addresses, self._settings.is_secure
            self._looked.append(look_at_all(addresses, tls=tls, protocol="Pravega", greeting=_is_settings_frame))
        return self._looked[0]


def _is_settings_frame(data: bytes) -> bool:
    """Returns whether a server that speaks HTTP/2, as gRPC does, has begun with its settings (RFC 9113, 3.4)."""
    return data[3:9] == b"\x04\0\0\0\0\0"


def _ranges(ranges: Any) -> dict[int, KeyRange]:
    return {one.segmentId.segmentId: KeyRange(one.minKey, one.maxKey) for one in ranges}


def _entries(cut: Mapping[int, int]) -> list[Any]:
    return [message("CutEntry", key=segment, value=offset) for segment, offset in sorted(cut.items())]


def _transaction(number: int) -> Any:
    def signed(bits: int) -> int:
        return bits - (1 << 64) if bits >> 63 else bits

    return message("TxnId", highBits=signed(number >> 64), lowBits=signed(number & _MASK))
