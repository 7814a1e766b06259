"""Continuing from checkpoints of the first edition, which remember an edge below which every file counts as read."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.printable import get_logger
from penstock_filesystem.source._split import Edge
from penstock_filesystem.source.discovery import FoundFile
from penstock_filesystem.source.tracking._sketch import SetSketch
from penstock_filesystem.source.tracking._tracked_files import fingerprint

__all__ = ["files_below_edge"]

_log = get_logger("penstock.filesystem")


def files_below_edge(edge: Edge, files: Sequence[FoundFile]) -> list[FoundFile]:
    """Returns those of ``files``, all that are there, which count as read: from now on they are tracked by name.

    A file at or below the edge that was never read is detected as long as no more than some 500 came or were removed
    since. Where that fails, all of them count as read, as they did, and a warning says how many.
    """
    below = [file for file in files if (file.mtime_ns, file.path) <= (edge.mtime_ns, edge.path)]
    by_print = {fingerprint(file.path): file for file in below}
    difference = SetSketch.from_bytes(edge.sketch).difference(by_print)
    if not difference.complete:
        _log.warning(
            "%d file(s) that are not newer than %s are taken as read: the checkpoint is one of the first edition, "
            "and too many files were removed since to tell. Check whether one came late; from now on all are tracked",
            len(below),
            edge.path,
        )
    unread = difference.only_there if difference.complete else frozenset[int]()
    return [file for value, file in by_print.items() if value not in unread]
