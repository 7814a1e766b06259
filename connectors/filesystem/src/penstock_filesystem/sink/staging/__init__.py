"""Staging, for each kind of store: an attempt writes files that no reader sees, and a committer publishes them."""

from penstock_filesystem.sink.staging._blocks import BlockCommitter, BlockStaging
from penstock_filesystem.sink.staging._move import MoveCommitter, MoveStaging
from penstock_filesystem.sink.staging._multipart import MultipartCommitter, MultipartStaging
from penstock_filesystem.sink.staging._rename import RenameCommitter, RenameStaging
from penstock_filesystem.sink.staging._staging import StagedFile, Staging, open_chunk

__all__ = [
    "BlockCommitter",
    "BlockStaging",
    "MoveCommitter",
    "MoveStaging",
    "MultipartCommitter",
    "MultipartStaging",
    "RenameCommitter",
    "RenameStaging",
    "StagedFile",
    "Staging",
    "open_chunk",
]
