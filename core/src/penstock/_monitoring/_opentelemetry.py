"""The numbers as OpenTelemetry instruments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock._monitoring._definitions import METRICS, Kind, Metric
from penstock._monitoring._registry import Sample
from penstock._version import __version__
from penstock.errors import BadConfigurationError

__all__ = ["observe"]


def observe(samples: Callable[[], Iterable[Sample]], meter_provider: Any = None) -> None:
    """Creates an observable instrument for each metric, which the provider's readers ask.

    Raises BadConfigurationError if ``opentelemetry-api`` is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError:
        raise BadConfigurationError(
            "metrics for OpenTelemetry need opentelemetry-api: pip install 'penstock[opentelemetry]'"
        ) from None
    meter = metrics.get_meter("penstock", __version__, meter_provider)
    for metric in METRICS.values():
        create = meter.create_observable_counter if metric.kind is Kind.COUNTER else meter.create_observable_gauge
        create(metric.otel_name, callbacks=[_callback(metric, samples)], unit=metric.unit, description=metric.help)


def _callback(metric: Metric, samples: Callable[[], Iterable[Sample]]) -> Callable[[Any], Iterator[Any]]:
    def observations(_: Any) -> Iterator[Any]:
        from opentelemetry.metrics import Observation

        for sample in samples():
            if sample.metric is metric:
                yield Observation(sample.value, dict(zip(metric.labels, sample.labels, strict=True)))

    return observations
