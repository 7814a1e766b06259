"""Tracking the files that were read, so that each is read once."""

from penstock_filesystem.source.tracking._first_edition import files_below_edge
from penstock_filesystem.source.tracking._tracker import FileTracker

__all__ = ["FileTracker", "files_below_edge"]
