"""A small exactly-once sink by two-phase commit: JSON lines in one file for each task of a batch."""

from penstock.testing._samples.sink._connector import FilesConnector

__all__ = ["FilesConnector"]
