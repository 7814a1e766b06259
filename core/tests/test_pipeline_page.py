"""The page about pipeline files: its examples have no mistakes and run, and it explains every key there is."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from penstock.cli._check import check_pipeline
from suite.pages import ROOT

PAGE = (ROOT / "docs" / "pipelines.md").read_text()
EXAMPLES = dict(re.findall(r"```yaml\n# (\w+)\.yaml\n(.*?)```", PAGE, re.DOTALL))
KEYS = re.findall(r"\| key.*? \| what it is \|\n\| --- \| --- \|\n((?:\|.*\n)+)", PAGE)

pytest.importorskip("penstock_filesystem")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_no_mistakes(name, tmp_path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(EXAMPLES[name])
    assert check_pipeline(path, {})[1] == []


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


def test_every_key_is_explained(tmp_path):
    """A mistake in each part names the keys that the part has; so does the page."""
    path = tmp_path / "p.yaml"
    path.write_text("{source: {qqqqqqqqqq: 1}, sink: {qqqqqqqqqq: 1}, views: {v: {qqqqqqqqqq: 1}}, qqqqqqqqqq: 1}")
    said = [mistake.text for mistake in check_pipeline(path, {})[1]]
    known = [set(found[1].split(", ")) for text in said if (found := re.search(r"; known: (.+)", text))]
    tables = [set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)))) for table in KEYS]
    assert len(known) == 4
    assert sorted(map(sorted, tables)) == sorted(map(sorted, known))
