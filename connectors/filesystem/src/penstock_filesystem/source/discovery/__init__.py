"""Which files are there: by listing, and by what a store reports."""

from penstock_filesystem.source.discovery._globs import check_globs, glob_to_regex, is_hidden, without_wildcards
from penstock_filesystem.source.discovery._listing import FileDiscovery, FoundFile, ModifiedBetween
from penstock_filesystem.source.discovery._notifications import NotificationQueue, objects_of, queue_of

__all__ = [
    "FileDiscovery",
    "FoundFile",
    "ModifiedBetween",
    "NotificationQueue",
    "check_globs",
    "glob_to_regex",
    "is_hidden",
    "objects_of",
    "queue_of",
    "without_wildcards",
]
