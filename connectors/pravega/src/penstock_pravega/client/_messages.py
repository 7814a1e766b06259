"""The messages of the controller's gRPC service that are used here, built at import from a table of their fields.

Names, numbers and types are those of Pravega's public interface; what is left out of a message is skipped by the
runtime. Built in a pool of their own, so that a program which also has generated classes keeps working.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["METHODS", "SERVICE", "message"]

_PACKAGE = "io.pravega.controller.stream.api.grpc.v1"
SERVICE = f"{_PACKAGE}.ControllerService"

#: Message → fields as "type name number"; a message's own name as type, "*" before it for a repeated one.
_MESSAGES: dict[str, str] = {
    "ScopeInfo": "string scope 1",
    "StreamInfo": "string scope 1; string stream 2; int32 accessOperation 3",
    "Status": "int32 status 1",
    "Result": "int32 result 1",
    "Exists": "bool exists 1",
    "ContinuationToken": "string token 1",
    "ScopesRequest": "ContinuationToken continuationToken 1",
    "ScopesResponse": "*string scopes 1; ContinuationToken continuationToken 2",
    "ScalingPolicy": "int32 scaleType 1; int32 targetRate 2; int32 scaleFactor 3; int32 minNumSegments 4",
    "RetentionPolicy": "int32 retentionType 1; int64 retentionParam 2; int64 retentionMax 3",
    "StreamConfig": (
        "StreamInfo streamInfo 1; ScalingPolicy scalingPolicy 2; RetentionPolicy retentionPolicy 3; "
        "int64 timestampAggregationTimeout 5"
    ),
    "CutEntry": "int64 key 1; int64 value 2",
    "StreamCut": "StreamInfo streamInfo 1; *CutEntry cut 2",
    "StreamCutRange": "StreamInfo streamInfo 1; *CutEntry from 2; *CutEntry to 3",
    "SegmentId": "StreamInfo streamInfo 1; int64 segmentId 2",
    "SegmentRange": "SegmentId segmentId 1; double minKey 2; double maxKey 3",
    "SegmentRanges": "*SegmentRange segmentRanges 1",
    "NodeUri": "string endpoint 1; int32 port 2",
    "SegmentLocation": "SegmentId segmentId 1; int64 offset 2",
    "SegmentsAtTime": "*SegmentLocation segments 1",
    "GetSegmentsRequest": "StreamInfo streamInfo 1; int64 timestamp 2",
    "GetEpochSegmentsRequest": "StreamInfo streamInfo 1; int32 epoch 2",
    "StreamCutRangeResponse": "*SegmentId segments 1",
    "SegmentEntry": "SegmentRange segment 1; *int64 value 2",
    "SuccessorResponse": "*SegmentEntry segments 1",
    "TxnId": "int64 highBits 1; int64 lowBits 2",
    "CreateTxnRequest": "StreamInfo streamInfo 1; int64 lease 2",
    "CreateTxnResponse": "TxnId txnId 1; *SegmentRange activeSegments 2; string delegationToken 3",
    "TxnRequest": "StreamInfo streamInfo 1; TxnId txnId 2; string writerId 3; int64 timestamp 4",
    "PingTxnRequest": "StreamInfo streamInfo 1; TxnId txnId 2; int64 lease 3",
    "TxnState": "int32 state 1",
    "KeyRangeEntry": "double start 1; double end 2",
    "ScaleRequest": (
        "StreamInfo streamInfo 1; *int64 sealedSegments 2; *KeyRangeEntry newKeyRanges 3; int64 scaleTimestamp 4"
    ),
    "ScaleResponse": "int32 status 1; int32 epoch 3",
    "ScaleStatusRequest": "StreamInfo streamInfo 1; int32 epoch 2",
    "DelegationToken": "string delegationToken 1",
    "TimestampFromWriter": "string writer 1; StreamCut position 2; int64 timestamp 3",
}

#: Method → request, response.
METHODS: dict[str, tuple[str, str]] = {
    "listScopes": ("ScopesRequest", "ScopesResponse"),
    "createScope": ("ScopeInfo", "Status"),
    "checkStreamExists": ("StreamInfo", "Exists"),
    "createStream": ("StreamConfig", "Status"),
    "sealStream": ("StreamInfo", "Status"),
    "deleteStream": ("StreamInfo", "Status"),
    "truncateStream": ("StreamCut", "Status"),
    "getCurrentSegments": ("StreamInfo", "SegmentRanges"),
    "getEpochSegments": ("GetEpochSegmentsRequest", "SegmentRanges"),
    "getSegments": ("GetSegmentsRequest", "SegmentsAtTime"),
    "getSegmentsImmediatelyFollowing": ("SegmentId", "SuccessorResponse"),
    "getSegmentsBetween": ("StreamCutRange", "StreamCutRangeResponse"),
    "getURI": ("SegmentId", "NodeUri"),
    "scale": ("ScaleRequest", "ScaleResponse"),
    "checkScale": ("ScaleStatusRequest", "Status"),
    "createTransaction": ("CreateTxnRequest", "CreateTxnResponse"),
    "commitTransaction": ("TxnRequest", "Status"),
    "abortTransaction": ("TxnRequest", "Status"),
    "pingTransaction": ("PingTxnRequest", "Status"),
    "checkTransactionState": ("TxnRequest", "TxnState"),
    "getDelegationToken": ("StreamInfo", "DelegationToken"),
    "noteTimestampFromWriter": ("TimestampFromWriter", "Result"),
}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "int32": _Field.TYPE_INT32,  # an enum's number looks the same on the wire
    "int64": _Field.TYPE_INT64,
    "bool": _Field.TYPE_BOOL,
    "double": _Field.TYPE_DOUBLE,
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="penstock/pravega.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        built = file.message_type.add(name=name)
        for text in fields.split("; "):
            kind, field_name, number = text.split()
            field = built.field.add(name=field_name, number=int(number))
            field.label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
            kind = kind.removeprefix("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_built = _classes()


def message(name: str, **fields: Any) -> Any:
    """Returns a message of the table with the given fields."""
    return _built[name](**fields)
