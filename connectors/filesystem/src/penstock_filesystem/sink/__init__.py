"""The sink of ``penstock.filesystem``: part files in buckets that are published exactly once.

A task writes hidden files of its own. What is full is published by the commit (renamed, or on S3 its upload completed);
the rest are *chunks*, named by the decision, which live on until their bucket's part is full, old or inactive and are
then merged and published. Readers only ever see finished files. The unfinished ones are in ``.penstock/<query>/``
below the sink's path.
"""

from penstock_filesystem.sink._buckets import BucketAssigner
from penstock_filesystem.sink._rolling import PartFileInfo, RollingPolicy
from penstock_filesystem.sink._sink import FileSystemTransactionalSink, check_sink, create_sink

__all__ = [
    "BucketAssigner",
    "FileSystemTransactionalSink",
    "PartFileInfo",
    "RollingPolicy",
    "check_sink",
    "create_sink",
]
