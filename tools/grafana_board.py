"""``python -m grafana_board``: prints the Grafana board of the metrics, which is ``docs/production/grafana.json``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from penstock._monitoring import METRICS

__all__ = ["PANELS", "Panel", "board", "metrics_in"]

_QUERY = '{query=~"$query"}'
_WIDTH, _HEIGHT = 8, 7


@dataclass(frozen=True)
class Panel:
    """A chart. ``lines`` are expressions in PromQL by legend; in them, ``[name]`` stands for a metric's series.

    ``unit`` is Grafana's name of one.
    """

    title: str
    unit: str
    lines: dict[str, str]
    about: str = ""


PANELS = (
    Panel("Queries that run", "short", {"{{query}}": "[query.running]"}, "0 for five minutes after the end."),
    Panel(
        "Rows read",
        "rowsps",
        {"{{query}}": "sum by (query) (rate([source.rows][$__rate_interval]))"},
    ),
    Panel(
        "Rows committed",
        "rowsps",
        {"{{query}}": "rate([sink.committed.rows][$__rate_interval])"},
        "Each row once, of sinks that commit in two phases.",
    ),
    Panel(
        "Bytes read and written by tasks",
        "Bps",
        {
            "{{query}} read": "sum by (query) (rate([read][$__rate_interval]))",
            "{{query}} written": "sum by (query) (rate([written][$__rate_interval]))",
        },
    ),
    Panel(
        "Batch time",
        "s",
        {
            "{{query}} mean": "rate([batch.time][$__rate_interval]) / rate([batches][$__rate_interval])",
            "{{query}} last": "[batch.last]",
        },
    ),
    Panel(
        "Time since the last sign of life",
        "s",
        {"{{query}}": "(time() - [query.last_sign.timestamp]) and [query.running] == 1"},
        "A batch, or that the query is idle.",
    ),
    Panel(
        "Lag in records",
        "short",
        {"{{query}} source {{source}}": "[source.lag.records]"},
        "What waits at the source, as of the last batch.",
    ),
    Panel(
        "Lag in bytes and files",
        "short",
        {
            "{{query}} source {{source}}: bytes": "[source.lag]",
            "{{query}} source {{source}}: files": "[source.lag.files]",
        },
    ),
    Panel(
        "Lag by partition",
        "short",
        {
            "{{query}} {{partition}}": "topk(20, [source.partition.lag.records])",
            "{{query}} {{partition}} bytes": "topk(20, [source.partition.lag])",
        },
        "The 20 partitions with the most.",
    ),
    Panel(
        "Commits and decisions given up",
        "short",
        {
            "{{query}} commits": "increase([sink.commits][$__rate_interval])",
            "{{query}} given up": "increase([sink.lost.commits][$__rate_interval])",
        },
    ),
    Panel(
        "Transactions",
        "short",
        {
            "{{query}} opened": "sum by (query) (increase([transactions.opened][$__rate_interval]))",
            "{{query}} committed": "sum by (query) (increase([transactions.committed][$__rate_interval]))",
            "{{query}} aborted": "sum by (query) (increase([transactions.aborted][$__rate_interval]))",
        },
    ),
    Panel(
        "Pending",
        "short",
        {
            "{{query}} decided, not published": "[sink.pending.committables]",
            "{{query}} committed, not visible": "[sink.pending.parts]",
        },
        "Open transactions and files of a decision; part files that are still open.",
    ),
    Panel(
        "Rows that did not fit, or were dropped",
        "short",
        {
            "{{query}} bad": "sum by (query) (increase([bad.rows][$__rate_interval]))",
            "{{query}} rescued": "sum by (query) (increase([rescued.rows][$__rate_interval]))",
            "{{query}} dropped": "sum by (query) (increase([dropped.rows][$__rate_interval]))",
        },
    ),
    Panel(
        "Input that was left out",
        "short",
        {
            "{{query}} records lost": "sum by (query) (increase([lost.records][$__rate_interval]))",
            "{{query}} files {{kind}}": "sum by (query, kind) (increase([odd.files][$__rate_interval]))",
        },
    ),
    Panel(
        "Retries",
        "short",
        {"{{query}} {{part}}": "increase([retries][$__rate_interval])"},
    ),
    Panel(
        "Time by phase",
        "s",
        {"{{query}} {{phase}}": "rate([batch.phase.time][$__rate_interval])"},
        "Seconds of each second.",
    ),
    Panel(
        "Watermark delay",
        "s",
        {"{{query}}": "time() - [query.watermark.timestamp]"},
    ),
    Panel(
        "Event time behind, by partition",
        "s",
        {"{{query}} {{partition}}": "topk(20, time() - [source.partition.event_time.timestamp])"},
        "Of sources that align their partitions.",
    ),
)


def board() -> dict[str, Any]:
    """Returns the board as Grafana imports it."""
    return {
        "title": "Penstock",
        "uid": "penstock",
        "description": "Streaming queries with connectors of Penstock. Made from the table of metrics.",
        "tags": ["penstock", "spark"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "query",
                    "label": "Query",
                    "type": "query",
                    "datasource": _datasource(),
                    "query": f"label_values({METRICS['query.running'].prometheus_name}, query)",
                    "refresh": 2,
                    "includeAll": True,
                    "multi": True,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def metrics_in(expression: str) -> set[str]:
    """Returns the names of metrics in an expression in PromQL."""
    return set(re.findall(r"\bpenstock_\w+", expression))


def _datasource() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${datasource}"}


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    each = 24 // _WIDTH
    return {
        "id": number + 1,
        "title": panel.title,
        "description": panel.about,
        "type": "timeseries",
        "datasource": _datasource(),
        "gridPos": {"x": number % each * _WIDTH, "y": number // each * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + line), "datasource": _datasource(), "expr": _promql(text), "legendFormat": legend}
            for line, (legend, text) in enumerate(panel.lines.items())
        ],
    }


def _promql(text: str) -> str:
    """Writes each ``[name]`` of a metric as its series; a range in brackets stays."""
    return re.sub(r"\[([a-z_.]+)\]", lambda found: METRICS[found[1]].prometheus_name + _QUERY, text)


if __name__ == "__main__":
    print(json.dumps(board(), indent=1))
