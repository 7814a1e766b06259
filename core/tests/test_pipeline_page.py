"""The page about pipeline files: its examples have no mistakes and run, and it explains every key there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from penstock.cli._check import check_pipeline
from penstock.cli._keys import (
    FILE,
    SECTIONS,
    SINK,
    SOURCE,
    TRANSFORM,
    TRIGGER,
    VIEW,
    WATERMARK,
    keys_as_markdown,
)
from suite.pages import ROOT

PAGE = (ROOT / "docs" / "pipelines.md").read_text()
EXAMPLES = dict(re.findall(r"```yaml\n# (\w+)\.yaml\n(.*?)```", PAGE, re.DOTALL))

pytest.importorskip("penstock_filesystem")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_no_mistakes(name, tmp_path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(EXAMPLES[name])
    assert check_pipeline(path, {})[1] == []


@pytest.mark.exhaustive("a driver; test_two_sinks_of_one_query_are_committed_together runs several sinks as well")
@pytest.mark.spark
def test_the_example_with_several_sinks_runs(tmp_path):
    (tmp_path / "shop.yaml").write_text(EXAMPLES["shop"])
    for name, text in {"orders": "id,customer,amount\n1,7,50\n2,8,150\n", "customers": "customer,name\n8,Bo\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(text)
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "run", "--plain", "shop.yaml"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert made.returncode == 0, made.stderr
    assert "shop: finished after" in made.stdout
    alerts = "".join(path.read_text() for path in (tmp_path / "out/alerts").glob("*.json"))
    assert alerts == '{"id":2,"name":"Bo"}\n'


KEYS = re.compile(r"<!-- keys -->\n(.*?)<!-- /keys -->", re.DOTALL)


def test_every_key_is_explained(tmp_path):
    """To renew the tables: REWRITE_DOCS=1 scripts/test core/tests/test_pipeline_page.py"""
    page = ROOT / "docs" / "pipelines.md"
    wanted = f"\n{keys_as_markdown()}\n"
    if os.environ.get("REWRITE_DOCS"):
        page.write_text(KEYS.sub(lambda _: f"<!-- keys -->\n{wanted}<!-- /keys -->", page.read_text()))
    assert KEYS.search(page.read_text())[1] == wanted


@pytest.mark.parametrize(
    ("part", "keys"),
    [
        ("qqqqqqqqqq: 1", FILE),
        ("source: {qqqqqqqqqq: 1}", SOURCE),
        ("source: {watermark: {qqqqqqqqqq: 1}}", WATERMARK),
        ("sink: {qqqqqqqqqq: 1}", SINK),
        ("transform: {qqqqqqqqqq: 1}", TRANSFORM),
        ("views: {v: {qqqqqqqqqq: 1}}", VIEW),
        ("trigger: {qqqqqqqqqq: 1}", TRIGGER),
    ],
)
def test_the_reader_knows_the_keys_of_the_page(part, keys, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(f"{{{part}}}")
    (said,) = [m.text for m in check_pipeline(path, {})[1] if "unknown key" in m.text]
    assert said.endswith(f"; known: {', '.join(keys)}")
    assert any(keys.items() <= known.items() for known in SECTIONS.values())
