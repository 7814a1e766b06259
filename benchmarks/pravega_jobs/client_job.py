"""The same as ``penstock_job``, always as one task, with the package ``pravega`` in an environment of its own."""

from __future__ import annotations

import asyncio
import sys
import uuid

import pravega_client

WHAT, ADDRESS, SCOPE, STREAM = sys.argv[1:5]
EVENTS, SIZE = map(int, sys.argv[7:])
MANAGER = pravega_client.StreamManager(ADDRESS.removeprefix("tcp://"), False, False)


def read() -> None:
    """Event by event."""
    reader = MANAGER.create_reader_group(uuid.uuid4().hex, SCOPE, STREAM).create_reader("one")
    _ready()
    asyncio.run(_read(reader))
    print("done", flush=True)


async def _read(reader: pravega_client.StreamReader) -> None:
    seen = 0
    while seen < EVENTS:
        part = await reader.get_segment_slice_async()
        for event in part:
            event.data()
            seen += 1
        reader.release_segment(part)


def write() -> None:
    """Event by event, with 10,000 in flight."""
    writer = MANAGER.create_writer(SCOPE, STREAM, 10_000)
    value = b"x" * SIZE
    _ready()
    for number in range(EVENTS):
        writer.write_event_bytes(value, routing_key=f"key-{number % 1000}")
    writer.flush()
    print("done", flush=True)


def _ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    {"read": read, "write": write}[WHAT]()
