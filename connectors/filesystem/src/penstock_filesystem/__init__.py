"""Files in and out: ``.format("penstock.filesystem")``, batch and stream, on local disks and object stores.

:class:`BucketAssigner` and :class:`RollingPolicy` are for users who bring their own (options ``bucketAssigner`` and
``rollingPolicy``), :class:`FileFormat` with what it makes is for a format of their own (option ``format``).
"""

from typing import TYPE_CHECKING, Any

from penstock_filesystem._connector import FileSystemConnector

if TYPE_CHECKING:
    from penstock_filesystem.formats.third_party import FileEncoder, FileFormat, FileReader, FileWriter
    from penstock_filesystem.sink import BucketAssigner, PartFileInfo, RollingPolicy

__all__ = [
    "BucketAssigner",
    "FileEncoder",
    "FileFormat",
    "FileReader",
    "FileSystemConnector",
    "FileWriter",
    "PartFileInfo",
    "RollingPolicy",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: processes that only read need nothing of the sink.
    if name in ("BucketAssigner", "PartFileInfo", "RollingPolicy"):
        from penstock_filesystem import sink

        return getattr(sink, name)
    if name in ("FileEncoder", "FileFormat", "FileReader", "FileWriter"):
        from penstock_filesystem.formats import third_party

        return getattr(third_party, name)
    raise AttributeError(f"module 'penstock_filesystem' has no attribute {name!r}")
