"""Writing: exactly once."""

from penstock.testing._samples.database.sink._sink import BankTransactionalSink, create_sink

__all__ = ["BankTransactionalSink", "create_sink"]
