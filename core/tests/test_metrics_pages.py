"""The page of metrics, the board and the alerts are what the table of metrics says.

To renew them: REWRITE_DOCS=1 scripts/test core/tests/test_metrics_pages.py
"""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml

from grafana_board import PANELS, board, metrics_in
from penstock._monitoring import METRICS, MOST_ENDED, MOST_PARTITIONS, RETENTION_S
from suite.pages import ROOT

FOLDER = ROOT / "docs" / "production"
PAGE, BOARD, ALERTS = FOLDER / "metrics.md", FOLDER / "grafana.json", FOLDER / "alerts.yml"
TABLE = re.compile(r"<!-- metrics -->\n(.*?)<!-- /metrics -->", re.DOTALL)
BY_NAME = {metric.prometheus_name: metric for metric in METRICS.values()}
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_the_page_is_the_table():
    lines = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.prometheus_name}` | {metric.kind.value} | {labels} | {metric.help} |")
    wanted = "\n".join(lines) + "\n"
    if os.environ.get("REWRITE_DOCS"):
        PAGE.write_text(TABLE.sub(lambda _: f"<!-- metrics -->\n{wanted}<!-- /metrics -->", PAGE.read_text()))
    assert TABLE.search(PAGE.read_text()).group(1) == wanted


def test_the_bounds_on_the_page_are_those_in_the_code():
    text = PAGE.read_text()
    assert (MOST_ENDED, MOST_PARTITIONS, RETENTION_S) == (100, 1000, 300)
    assert "at most 100 have series" in text and "at most 1,000 partitions" in text and "for five minutes" in text


def test_the_board_is_the_one_that_is_made():
    wanted = json.dumps(board(), indent=1) + "\n"
    if os.environ.get("REWRITE_DOCS"):
        BOARD.write_text(wanted)
    assert BOARD.read_text() == wanted


def expressions():
    for panel in board()["panels"]:
        for target in panel["targets"]:
            yield pytest.param(target["expr"], target["legendFormat"], id=f"{panel['title']} {target['refId']}")
    for rule in RULES:
        yield pytest.param(rule["expr"], " ".join(rule["annotations"].values()), id=rule["alert"])


@pytest.mark.parametrize(("expression", "shown"), list(expressions()))
def test_what_is_drawn_and_alerted_on_exists(expression, shown):
    names = metrics_in(expression)
    assert names <= set(BY_NAME) and (names or expression.startswith("up{"))
    for one in names:
        # A counter without a rate only grows; a gauge has none.
        uses = re.findall(rf"(\w+)\({one}(?:{{[^}}]*}})?\[", expression)
        assert set(uses) <= {"counter": {"rate", "increase"}, "gauge": {"deriv"}}[BY_NAME[one].kind.value]
    labels = set(re.findall(r"{{\s*(?:\$labels\.)?(\w+)\s*}}", shown))
    # An expression of several metrics has the labels that all of them have, unless it is one or the other.
    known = set.intersection(*(set(BY_NAME[one].labels) for one in names)) if names else set()
    assert labels <= known | {"instance"}, expression


def test_every_panel_and_alert_says_what_it_is():
    assert len({panel.title for panel in PANELS}) == len(PANELS)
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        for path in re.findall(r"docs/[\w/-]+\.md", rule["annotations"]["description"]):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    "name", ["bad.rows", "dropped.rows", "dead_letters", "rescued.rows", "lost.records", "data_losses", "odd.files"]
)
def test_rows_and_files_that_someone_should_look_at_raise_an_alert(name):
    watched = set().union(*(metrics_in(rule["expr"]) for rule in RULES))
    assert METRICS[name].prometheus_name in watched


@pytest.mark.parametrize("name", ["lag", "rows", "bytes", "open", "committed", "aborted", "bad", "parts", "batch"])
def test_what_an_operator_asks_for_is_on_the_board(name):
    words = {
        "lag": "source.partition.lag.records",
        "rows": "source.rows",
        "bytes": "read",
        "open": "sink.pending.committables",
        "committed": "transactions.committed",
        "aborted": "transactions.aborted",
        "bad": "bad.rows",
        "parts": "sink.pending.parts",
        "batch": "batch.time",
    }
    assert METRICS[words[name]].prometheus_name in BOARD.read_text()
