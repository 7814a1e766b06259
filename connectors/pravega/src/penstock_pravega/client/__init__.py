"""A client of Pravega, as far as exact reading and transactions need one: of the controller's gRPC service and the
segment stores' messages. It raises Penstock's errors and knows nothing else of Penstock.

Layouts follow Pravega's public interface definition and its own client, which is the reference for both.
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
from penstock_pravega.client._cuts import UNBOUNDED, parse_cut
from penstock_pravega.client._endpoint import ControllerSettings, Credentials
from penstock_pravega.client._events import (
    HEADER,
    LARGEST_EVENT,
    BrokenEvents,
    event_offsets,
    frame_events,
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
from penstock_pravega.client._routing import SegmentRouter
from penstock_pravega.client._segment_stores import SegmentStores, controller_of
from penstock_pravega.client._stream_client import StreamClient
from penstock_pravega.client._watermarks import Watermark, parse_watermark, watermark_stream
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
    "StreamClient",
    "StreamPolicy",
    "Watermark",
    "TransactionState",
    "UnknownStreamError",
    "check_name",
    "controller_of",
    "epoch_of",
    "event_offsets",
    "frame_events",
    "join_values",
    "watermark_stream",
    "number_of",
    "parse_cut",
    "parse_watermark",
    "segment_name",
    "short_name",
    "stream_name",
    "to_array",
    "transaction_segment_name",
]
