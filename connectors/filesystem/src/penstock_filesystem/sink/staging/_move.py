"""Staging and committing on Google Cloud Storage: parts are hidden objects, which the store itself renames.

As on a disk, but files are spooled until they are closed, requests are made at the same time, and each names the object
it means: an upload may come late, when what it stands for was published already, and would be there under the hidden
name again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from penstock.metrics import Metrics
from penstock.sink import Found, WriterContext
from penstock.storage import GcsStorage
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._rename import RenameCommitter, RenameStaging
from penstock_filesystem.sink.staging._spooled import open_spool
from penstock_filesystem.sink.staging._staging import StagedFile

__all__ = ["MoveCommitter", "MoveStaging"]


class MoveStaging(RenameStaging):
    """Uploads hidden objects of the attempt's own when their files are closed, and remembers their generations."""

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        self._generations: dict[str, str] = {}

    @property
    def _storage(self) -> GcsStorage:
        assert isinstance(self.layout.storage, GcsStorage)
        return self.layout.storage

    def create(self) -> StagedFile:
        """Opens a new temporary file."""
        file = StagedFile(self._new_path(), open_spool())
        self._open.append(file)
        return file

    def _finish(self, file: StagedFile) -> None:
        path = self.layout.full(file.path)
        self._generations[path] = self._storage.stage_file(path, file.stream)
        file.stream.close()
        self._open.remove(file)

    def _link(self, source: str, target: str) -> None:
        self._generations[target] = self._storage.copy_file(source, target)

    def _witnessed(self, part: PendingPart) -> PendingPart:
        self._made.append(part.witness)
        self._storage.put(self.layout.full(part.witness), b"")
        return replace(part, kind="move", upload_id=self._generations[self.layout.full(part.hidden)])


class MoveCommitter(RenameCommitter):
    """Gives the hidden object its final name, on the condition that no object has it."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        super().__init__(layout, query_id, metrics)
        assert isinstance(layout.storage, GcsStorage)
        self._storage = layout.storage

    def look(self, committables: Sequence[PendingPart]) -> list[Found]:
        """Looks at hidden, sealed and final names."""
        return self._in_parallel(self._look, committables)

    def _hidden_size(self, part: PendingPart) -> int | None:
        """Returns ``None`` for another object of that name, which came late."""
        return part.size if self._storage.generation(self._layout.full(part.hidden)) == part.upload_id else None

    def publish(self, committables: Sequence[PendingPart]) -> list[Found]:
        """Renames the parts."""
        return self._publish_in_parallel(committables)

    def _publish(self, part: PendingPart) -> Found:
        try:
            self._move(part, part.final)
        except (FileNotFoundError, FileExistsError):
            found = self._look(part)
            if found is Found.OPEN:
                raise  # something else has the final name
            return found
        return Found.COMMITTED

    def seal(self, committables: Sequence[PendingPart]) -> None:
        """Takes the hidden names away, so that a late call to :meth:`publish` finds nothing."""
        self._in_parallel(self._seal, committables)

    def _seal(self, part: PendingPart) -> bool:
        try:
            self._move(part, part.sealed)
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def discard(self, committables: Sequence[PendingPart], states: Sequence[Chunk]) -> None:
        """Deletes the objects of parts and chunks.

        Those of sealed parts go last: a witness alone stands for a part that was published.
        """
        parts = [path for part in committables for path in (part.hidden, part.witness)]
        self._delete([*parts, *(chunk.path for chunk in states)])
        self._delete([part.sealed for part in committables])

    def _move(self, part: PendingPart, target: str) -> None:
        self._storage.move(self._layout.full(part.hidden), self._layout.full(target), part.upload_id)
