"""Queries without Spark whose system is behind a bad network, and its faults by name."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connector import Connector
from penstock.retry import RetryPolicy
from penstock.storage import LocalStorage, Storage
from penstock.testing import SinkQuery, SourceQuery
from suite.bad_network import BadNetwork, Direction
from suite.tiers import MARKER

__all__ = ["FAULTS", "every", "sink_query", "source_query"]

#: Longer than the time limits that tests give to requests, which are longer than the latency.
_HELD_S = 6.0

Fault = Callable[[BadNetwork], AbstractContextManager[None]]


def _with(**faults: float) -> Fault:
    @contextmanager
    def manager(network: BadNetwork) -> Iterator[None]:
        for name, value in faults.items():
            setattr(network, name, value)
        yield

    return manager


def _held(direction: Direction) -> Fault:
    @contextmanager
    def manager(network: BadNetwork) -> Iterator[None]:
        network.hold(direction)
        back = threading.Timer(_HELD_S, network.mend)
        back.start()
        try:
            yield
        finally:
            back.join()

    return manager


@contextmanager
def _half_open(network: BadNetwork) -> Iterator[None]:
    network.half_open()
    yield


#: Each is there for a ``with`` block; afterwards call :meth:`BadNetwork.mend`.
FAULTS: Mapping[str, Fault] = {
    "2 s latency": _with(latency_s=1.0),
    "100 kB/s": _with(bytes_per_s=100_000),
    "3 % resets": _with(resets=0.03),
    "3 % cut answers": _with(cuts=0.03),
    "nothing reaches the server": _held("to server"),
    "nothing reaches us": _held("to client"),
    "half open": _half_open,
}


def every(*axes: Sequence[Any], witnesses: Collection[tuple[Any, ...]], otherwise: str) -> list[Any]:
    """Returns each combination of values, as ``parametrize`` takes it; in the first tier are ``witnesses`` alone.

    ``otherwise`` is the reason of the others.
    """
    second_tier = getattr(pytest.mark, MARKER)(otherwise)
    combinations = list(itertools.product(*axes))
    assert set(witnesses) <= set(combinations), "no such case"
    return [
        pytest.param(*one, id="-".join(map(str, one)), marks=() if one in witnesses else second_tier)
        for one in combinations
    ]


def sink_query(
    connector: Connector,
    options: Mapping[str, str],
    schema: pa.Schema,
    checkpoint: Path | str,
    store: Storage | None = None,
) -> SinkQuery:
    """A query that writes with a connector, and is as patient as its options say. ``store`` has the checkpoint."""
    assert connector.sink_options is not None
    values = connector.sink_options.parse(options, owner="sink")
    sink = connector.create_sink(values, schema)
    retry = RetryPolicy.from_values(values)
    return SinkQuery(sink, schema, Path(checkpoint), retry=retry, store=store or LocalStorage())


def source_query(connector: Connector, options: Mapping[str, str], schema: pa.Schema | None = None) -> SourceQuery:
    """A query that reads with a connector all there is, and is as patient as its options say."""
    assert connector.source_options is not None
    values = connector.source_options.parse(options, owner="source")
    source = connector.create_source(values)
    schema = schema or source.fixed_schema()
    source.validate_schema(schema)
    return SourceQuery(source, schema, available_now=True, retry=RetryPolicy.from_values(values))
