"""Pravega's two protocols, as far as exact reading and transactions need them: the controller's gRPC service, and the
segment store's messages. Nothing here knows Penstock's contracts but its errors.

Layouts after Pravega's public interface definition and its own client, which is the reference for both.
"""

from penstock_pravega.client._appender import SegmentAppender
from penstock_pravega.client._controller import (
    Controller,
    KeyRange,
    PingAnswer,
    StreamPolicy,
    TransactionState,
    UnknownStreamError,
)
from penstock_pravega.client._cuts import UNBOUNDED, cut_text, parse_cut
from penstock_pravega.client._endpoint import ControllerSettings, Credentials
from penstock_pravega.client._events import (
    HEADER,
    LARGEST_EVENT,
    BrokenEvents,
    event_offsets,
    frame_events,
    frames_size,
    join_values,
    to_array,
)
from penstock_pravega.client._keycloak import KeycloakCredentials
from penstock_pravega.client._names import (
    check_name,
    epoch_of,
    number_of,
    segment_name,
    short_name,
    stream_name,
    transaction_segment_name,
)
from penstock_pravega.client._range_reader import RangeReader
from penstock_pravega.client._routing import SegmentRouter, key_position
from penstock_pravega.client._segment_stores import SegmentStores, controller_of
from penstock_pravega.client._time_marks import TimeMark, mark_stream, parse_mark
from penstock_pravega.client._wire import NoSuchSegment, Refused, SegmentInfo, SegmentSealed, SegmentTruncated

__all__ = [
    "HEADER",
    "LARGEST_EVENT",
    "UNBOUNDED",
    "BrokenEvents",
    "Controller",
    "ControllerSettings",
    "Credentials",
    "KeyRange",
    "KeycloakCredentials",
    "NoSuchSegment",
    "PingAnswer",
    "RangeReader",
    "Refused",
    "SegmentAppender",
    "SegmentInfo",
    "SegmentRouter",
    "SegmentSealed",
    "SegmentStores",
    "SegmentTruncated",
    "StreamPolicy",
    "TimeMark",
    "TransactionState",
    "UnknownStreamError",
    "check_name",
    "controller_of",
    "cut_text",
    "epoch_of",
    "event_offsets",
    "frame_events",
    "frames_size",
    "join_values",
    "key_position",
    "mark_stream",
    "number_of",
    "parse_cut",
    "parse_mark",
    "segment_name",
    "short_name",
    "stream_name",
    "to_array",
    "transaction_segment_name",
]
