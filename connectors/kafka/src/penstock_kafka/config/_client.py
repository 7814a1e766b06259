"""The names of the clients that move records, and what they were called before."""

from __future__ import annotations

__all__ = ["CLIENTS", "FORMER_CLIENTS"]

#: ``protocol`` speaks Kafka's protocol itself, with a compiled part; ``librdkafka`` is confluent-kafka's.
CLIENTS = ("auto", "protocol", "librdkafka")
#: Former names, which are in the checkpoints of queries, and what stands for each now.
FORMER_CLIENTS = (("native", "protocol"), ("python", "librdkafka"))
