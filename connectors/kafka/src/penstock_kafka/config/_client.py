"""The names of the clients that move records, and what they were called before."""

from __future__ import annotations

import warnings

__all__ = ["CLIENTS", "client_name"]

#: ``protocol`` speaks Kafka's protocol itself, with a compiled part; ``librdkafka`` is confluent-kafka's.
CLIENTS = ("auto", "protocol", "librdkafka")
_FORMER = {"native": "protocol", "python": "librdkafka"}
_warned: set[str] = set()


def client_name(text: str) -> str:
    """Returns today's name of a client for a former one, with one warning in a process; other texts as they are."""
    former = text.strip().lower()
    name = _FORMER.get(former)
    if name is None:
        return text
    if former not in _warned:
        _warned.add(former)
        warnings.warn(f"the Kafka client '{former}' is called '{name}' now: write client={name}", stacklevel=2)
    return name
