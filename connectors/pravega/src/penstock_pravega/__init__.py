"""Pravega streams to and from Spark, as the format ``penstock.pravega``."""

from penstock_pravega._connector import PravegaConnector

__all__ = ["PravegaConnector"]
