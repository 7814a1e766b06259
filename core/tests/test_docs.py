"""The docs: code blocks run, options are those that are declared, links lead somewhere.

Blocks that need a server are run where there is one: in the tests of its connector.
"""

from __future__ import annotations

import os
import re

import pytest
from typer.testing import CliRunner

from penstock._plugins import find_connector
from penstock.cli import app
from suite.pages import ROOT, as_a_reader, blocks, in_the_session

OPTIONS = re.compile(r"<!-- options -->\n(.*?)<!-- /options -->", re.DOTALL)
CONNECTOR_PAGES = {name: ROOT / "docs" / f"{name}.md" for name in ("cassandra", "filesystem", "kafka", "pravega")}
BLOCKS = {block.name: block for block in blocks()}


#: What a reader meets first has a driver of its own.
FIRST = "files"
OTHERS = [name for name in BLOCKS if name != FIRST]


@pytest.mark.spark
@pytest.mark.parametrize("name", OTHERS)
def test_code_runs_and_prints_what_it_says(name, tmp_path, spark, monkeypatch):
    in_the_session(BLOCKS[name], tmp_path, monkeypatch.setenv)


@pytest.mark.spark
def test_the_first_code_runs_for_a_reader(tmp_path):
    as_a_reader(BLOCKS[FIRST], tmp_path)


@pytest.mark.exhaustive("a driver for each block; test_the_first_code_runs_for_a_reader has one by default")
@pytest.mark.spark
@pytest.mark.parametrize("name", OTHERS)
def test_code_runs_for_a_reader(name, tmp_path):
    as_a_reader(BLOCKS[name], tmp_path)


def test_there_are_blocks_to_run():
    assert {FIRST, "source", "enrich", "monitoring"} <= set(BLOCKS)
    assert {"kafka", "decoding"} <= {block.name for block in blocks("kafka")}
    assert [block.name for block in blocks("pravega")] == ["pravega"]


@pytest.mark.parametrize("connector", sorted(CONNECTOR_PAGES))
def test_options_on_the_page_are_those_declared(connector):
    """To renew them: REWRITE_DOCS=1 scripts/test core/tests/test_docs.py"""
    page = CONNECTOR_PAGES[connector]
    described = CliRunner().invoke(app, ["describe", connector, "--markdown"], catch_exceptions=False).stdout
    wanted = described[described.index("## Options of the source") :].strip() + "\n"
    text = page.read_text()
    if os.environ.get("REWRITE_DOCS"):
        page.write_text(OPTIONS.sub(lambda _: f"<!-- options -->\n{wanted}<!-- /options -->", text))
    assert OPTIONS.search(page.read_text()).group(1) == wanted


AT_RESTART = re.compile(r"<!-- at restart -->\n(.*?)<!-- /at restart -->", re.DOTALL)


def test_the_options_that_a_restart_does_not_take_up_are_on_the_page():
    """To renew them: REWRITE_DOCS=1 scripts/test core/tests/test_docs.py"""
    page = ROOT / "docs" / "production" / "upgrading.md"
    lines = ["| connector | option | at a restart |", "| --- | --- | --- |"]
    for name in sorted(CONNECTOR_PAGES):
        connector = find_connector(name).load()
        for side, declared in (("source", connector.source_options), ("sink", connector.sink_options)):
            by_rule: dict[str, list[str]] = {}
            for option in declared or ():
                by_rule.setdefault(option.at_restart, []).append(f"`{option.name}`")
            lines += [f"| {name} {side} | {', '.join(o)} | {r} |" for r, o in by_rule.items() if r != "takes effect"]
    wanted = "\n".join(lines) + "\n"
    if os.environ.get("REWRITE_DOCS"):
        page.write_text(
            AT_RESTART.sub(lambda _: f"<!-- at restart -->\n{wanted}<!-- /at restart -->", page.read_text())
        )
    assert AT_RESTART.search(page.read_text()).group(1) == wanted


def test_readme_shows_every_installed_connector():
    from penstock._plugins import installed_connectors

    text = (ROOT / "README.md").read_text()
    for connector in installed_connectors():
        assert f"`{connector.format}`" in text
