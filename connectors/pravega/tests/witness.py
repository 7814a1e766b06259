"""The published client of Pravega, in a process of its own: ``CONTROLLER SCOPE STREAM write | read COUNT``.

It is written in Rust and shares nothing with our client. ``read`` prints a list of events, in hexadecimal.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pravega_client


def write(manager: pravega_client.StreamManager, scope: str, stream: str) -> None:
    """Writes events, commits one transaction, aborts one, and leaves one open."""
    writer = manager.create_writer(scope, stream)
    for number in range(200):
        writer.write_event_bytes(b"plain %d" % number, f"key {number % 5}")
    writer.flush()
    transactions = manager.create_transaction_writer(scope, stream, 1)
    for kind in ("committed", "aborted", "open"):
        transaction = transactions.begin_txn()
        for number in range(50):
            transaction.write_event_bytes(f"{kind} {number}".encode(), f"key {number % 5}")
        if kind == "committed":
            transaction.commit()
        elif kind == "aborted":
            transaction.abort()


async def read(manager: pravega_client.StreamManager, scope: str, stream: str, count: int) -> list[bytes]:
    """Reads that many events from the beginning."""
    found: list[bytes] = []
    reader = manager.create_reader_group(f"group-{os.getpid()}", scope, stream).create_reader("reader")
    while len(found) < count:
        part = await asyncio.wait_for(reader.get_segment_slice_async(), 60)
        found += [bytes(event.data()) for event in part]
        reader.release_segment(part)
    return found


def main() -> None:
    """Does what the arguments say, and ends at once: the client's threads don't."""
    address, scope, stream, what, count = sys.argv[1:]
    manager = pravega_client.StreamManager(address)
    if what == "write":
        write(manager, scope, stream)
        print("written", flush=True)
    else:
        found = asyncio.run(read(manager, scope, stream, int(count)))
        print(json.dumps([event.hex() for event in found]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
