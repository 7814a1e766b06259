"""Where the streams of a query start and stop, from the words and stream cuts that the user gave."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock_pravega.client import StreamClient
from penstock_pravega.options import SourceOptions
from penstock_pravega.source._split import Cuts

__all__ = ["resolve_starts", "resolve_stops"]


def resolve_starts(client: StreamClient, options: SourceOptions, streams: Collection[str], default: str) -> Cuts:
    """Returns the starting cuts of ``streams``; ``default`` is head or tail. Raises as :class:`StreamClient` does."""
    return {
        stream: _resolve(client, stream, options.start.streams[stream] if options.start else default)
        for stream in streams
    }


def resolve_stops(client: StreamClient, options: SourceOptions, starts: Cuts) -> Cuts | None:
    """Returns where all streams stop; ``None`` if the user set no end.

    Raises BadConfigurationError if a stream of ``starts`` starts after its end.
    """
    if options.stop is None:
        return None
    stops = {stream: _resolve(client, stream, options.stop.streams[stream]) for stream in options.streams}
    for stream, cut in starts.items():
        client.check_order(stream, cut, stops[stream])
    return stops


def _resolve(client: StreamClient, stream: str, position: str | Mapping[int, int]) -> Mapping[int, int]:
    if isinstance(position, Mapping):
        return dict(position)
    return client.head(stream) if position == "head" else client.tail(stream)
