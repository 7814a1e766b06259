"""The sinks of Pravega: at least once, and exactly once by transactions."""

from penstock_pravega.sink._sink import PravegaAtLeastOnceSink, PravegaTransactionalSink, check_sink, create_sink

__all__ = ["PravegaAtLeastOnceSink", "PravegaTransactionalSink", "check_sink", "create_sink"]
