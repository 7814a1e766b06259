"""The numbers over HTTP, as Prometheus scrapes them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock._monitoring._definitions import METRICS, Kind
from penstock._monitoring._registry import Sample
from penstock.errors import BadConfigurationError

__all__ = ["MetricsServer"]


class MetricsServer:
    """Serves metrics at ``address`` until :meth:`stop`, or until the session stops. One daemon thread for each scrape.

    Raises BadConfigurationError if the port is in use, or ``prometheus-client`` is not installed.
    """

    def __init__(self, samples: Callable[[], Iterable[Sample]], *, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError:
            raise BadConfigurationError(
                "metrics for Prometheus need prometheus-client: pip install 'penstock[prometheus]'"
            ) from None
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(samples))
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except (OSError, OverflowError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            raise BadConfigurationError(
                f"metrics can't be served at {host}:{port} ({reason}): choose another port, or 0 for a free one"
            ) from None
        self.host = host
        self.port: int = self._server.server_port

    @property
    def address(self) -> str:
        """The URL to scrape."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/metrics"

    def stop(self) -> None:
        """Returns when nothing listens any more. Safe to call again."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


class _Collector:
    """What the library asks for the numbers, in the thread of a scrape."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def describe(self) -> Iterable[Any]:
        """Returns nothing: else the library would collect once to learn the names."""
        return ()

    def collect(self) -> Iterator[Any]:
        """Yields a family for each metric that has a value."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        by_name: dict[str, list[Sample]] = defaultdict(list)
        for sample in self._samples():
            by_name[sample.metric.name].append(sample)
        for name, metric in METRICS.items():
            if name in by_name:
                kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
                family = kind(metric.prometheus_name, metric.help, labels=metric.labels)
                for sample in by_name[name]:
                    family.add_metric(sample.labels, sample.value)
                yield family
