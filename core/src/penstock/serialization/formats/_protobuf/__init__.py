"""Protobuf: messages as struct columns. Needs ptars and protobuf."""

from penstock.serialization.formats._protobuf._format import ProtobufFormat

__all__ = ["ProtobufFormat"]
