"""The options of the source and of the sink."""

from penstock_filesystem.options._sink import SINK_OPTIONS, SinkOptions
from penstock_filesystem.options._source import SOURCE_OPTIONS, SourceOptions

__all__ = ["SINK_OPTIONS", "SOURCE_OPTIONS", "SinkOptions", "SourceOptions"]
