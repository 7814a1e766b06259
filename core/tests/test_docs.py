"""The docs: code blocks run, options are those that are declared, links lead somewhere.

Blocks that need a server are run where there is one: in the tests of its connector.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock._plugins import find_connector
from penstock.cli import app
from penstock.connector import Capability
from suite.pages import PAGES, ROOT, as_a_reader, blocks, check_quiet, code_on_pages, in_the_session, options_in

OPTIONS = re.compile(r"<!-- options -->\n(.*?)<!-- /options -->", re.DOTALL)
#: A page of the site shows so many columns of code.
WIDEST = 84
README = (ROOT / "README.md").read_text("utf-8")
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


WHAT_WORKS = re.compile(r"<!-- what works -->\n(.*?)<!-- /what works -->", re.DOTALL)


def test_the_table_of_connectors_is_what_they_declare():
    """To renew it: REWRITE_DOCS=1 scripts/test core/tests/test_docs.py"""
    page = ROOT / "docs" / "what-works-where.md"
    asked = {
        "batch": (Capability.BATCH_READ, Capability.BATCH_WRITE),
        "stream": (Capability.STREAM_READ, Capability.STREAM_WRITE),
    }
    lines = ["| connector | reads | writes | `delivery`, the default first | limits a batch by | finds what is added |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name in sorted(CONNECTOR_PAGES):
        connector = find_connector(name).load()
        can = connector.capabilities
        delivery = next(option for option in connector.sink_options if option.name == "delivery")
        deliveries = sorted(delivery.choices, key=lambda choice: choice != delivery.default)
        limits = [f"`{option.name}`" for option in connector.source_options if re.match("max.*PerTrigger", option.name)]
        cells = [
            f"[{name}]({name}.md)",
            *(", ".join(kind for kind, pair in asked.items() if pair[side] in can) for side in (0, 1)),
            ", ".join(f"`{choice}`" for choice in deliveries),
            ", ".join(limits) or "–",
            "yes" if Capability.DISCOVERY in can else "no",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    wanted = "\n".join(lines) + "\n"
    if os.environ.get("REWRITE_DOCS"):
        page.write_text(
            WHAT_WORKS.sub(lambda _: f"<!-- what works -->\n{wanted}<!-- /what works -->", page.read_text())
        )
    assert WHAT_WORKS.search(page.read_text()).group(1) == wanted


@pytest.mark.spark
def test_the_first_commands_of_the_readme_lead_to_rows(tmp_path):
    first, shown = re.search(
        r"```\n(pip install.*?)```.*?<!-- output: orders -->\n```\n(.*?)```", README, re.DOTALL
    ).groups()
    commands = first.splitlines()
    assert len(commands) == 3 and commands[0].startswith("pip install './core[spark,cli]' ./connectors/filesystem")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK")}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    job = " && ".join(commands[1:])
    done = subprocess.run(
        ["bash", "-c", job], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_quiet(done.stderr)
    assert shown in done.stdout and done.stdout.count('{"id":') == 5, done.stdout


def test_readme_shows_every_installed_connector():
    from penstock._plugins import installed_connectors

    for connector in installed_connectors():
        assert f"`{connector.format}`" in README


CODE = code_on_pages()


@pytest.mark.parametrize("code", CODE, ids=str)
def test_code_is_run_or_says_why_not(code):
    """``python -m suite.pages``, with PYTHONPATH=tools, lists those that are not run."""
    kind, _, rest = code.mark.partition(": ")
    assert kind in ("run", "run by", "login", "output", "not run") and rest, f"{code}: what runs it?"
    if kind == "run by":
        assert code.page.name in (ROOT / rest).read_text("utf-8"), f"{code}: {rest} does not take it from the page"


#: What Spark's readers and writers have themselves.
OF_SPARK = {"checkpointlocation", "path"}


@pytest.mark.parametrize("code", [code for code in CODE if options_in(code)[1]], ids=str)
def test_options_in_code_are_declared(code):
    """Also where the code can't run: it needs a cluster, a login or a cloud."""
    connectors, names = options_in(code)
    declared = []
    for connector in (find_connector(name).load() for name in connectors or CONNECTOR_PAGES):
        declared += [options for options in (connector.source_options, connector.sink_options) if options is not None]
    for name in names:
        found = name.lower() in OF_SPARK or any(options.find(name) is not None for options in declared)
        assert found or name in OF_OTHERS, f"{code}: {', '.join(sorted(connectors))} have no option '{name}'"


#: Options of other sources and sinks that blocks use beside ours.
OF_OTHERS = {"numRows", "rowsPerSecond"}


def test_a_wrong_option_is_found():
    text = 'spark.read.format("penstock.kafka").option(\n"subscribe", "a").option("subscribee", "a")'
    code = replace(CODE[0], text=text)
    assert options_in(code) == ({"kafka"}, ["subscribe", "subscribee"])
    with pytest.raises(AssertionError, match="kafka have no option 'subscribee'"):
        test_options_in_code_are_declared(code)
    statement = "CREATE TEMPORARY VIEW a USING penstock.kafka\nOPTIONS (`kafka.bootstrap.servers` 'b:1', subscribe 'e')"
    assert options_in(replace(code, text=statement)) == ({"kafka"}, ["kafka.bootstrap.servers", "subscribe"])


def code_lines(page):
    """The lines of blocks in a language, and of shell commands; what commands print and drawings are as they are."""
    fence = language = None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        mark = re.match(r"\s*(`{3,})(\w*)", line)
        if fence is None and mark:
            fence, language = mark[1], mark[2].replace("text", "")
        elif fence is not None and line.strip() == fence:
            fence = None
        elif fence is not None and (language or re.match(r"\s*(scripts/|(penstock|pip|python|sed|mv) )", line)):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_code_fits_its_column(page):
    wide = [f"{page}:{number}" for number, line in code_lines(page) if len(line) > WIDEST]
    assert not wide, f"more than {WIDEST} columns: a reader would have to scroll"
