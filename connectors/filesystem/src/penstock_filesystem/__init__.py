"""Files in and out: ``.format("penstock.filesystem")``, batch and stream, on local disks and object stores."""

from penstock_filesystem._connector import FileSystemConnector

__all__ = ["FileSystemConnector"]
