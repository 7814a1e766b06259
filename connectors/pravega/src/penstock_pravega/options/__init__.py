"""What users may set on the Pravega source and sink, declared as data, and the checked values made from it."""

from penstock_pravega.options._cuts import CutPosition
from penstock_pravega.options._sink import SINK_OPTIONS, SinkOptions
from penstock_pravega.options._source import SOURCE_OPTIONS, SourceOptions

__all__ = ["SINK_OPTIONS", "SOURCE_OPTIONS", "CutPosition", "SinkOptions", "SourceOptions"]
