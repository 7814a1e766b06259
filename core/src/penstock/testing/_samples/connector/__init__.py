"""The smallest connector that passes the kit, both ways: JSON lines in the files of a local directory."""

from penstock.testing._samples.connector._connector import MinimalConnector

__all__ = ["MinimalConnector"]
