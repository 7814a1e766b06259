"""What checkpoints of the first edition remembered: an edge, below which every file counts as read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock_filesystem.source.discovery import FoundFile
from penstock_filesystem.source.seen import fingerprint
from penstock_filesystem.source.sketch import SetSketch

__all__ = ["Edge"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Edge:
    """The time (nanoseconds) and path of the newest file forgotten, and a sketch of all that were."""

    mtime_ns: int
    path: str
    sketch: bytes

    def split(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Those of all the files that are there which count as read: remembered from now on by their names.

        A file at or below the edge that was never read is told from the others as long as no more than some 500 came
        or were removed since. Where that fails they count as read, as they did, and a warning says how many.
        """
        below = [file for file in files if (file.mtime_ns, file.path) <= (self.mtime_ns, self.path)]
        by_print = {fingerprint(file.path): file for file in below}
        difference = SetSketch.from_bytes(self.sketch).difference(by_print)
        if not difference.complete:
            _LOG.warning(
                "%d file(s) that are not newer than %s are taken as read: the checkpoint is one of the first edition, "
                "and too many files were removed since to tell. Check whether one came late; from now on all are known",
                len(below),
                self.path,
            )
        unread = difference.only_there if difference.complete else frozenset[int]()
        return [file for value, file in by_print.items() if value not in unread]
