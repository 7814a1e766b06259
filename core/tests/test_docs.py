"""The docs: code blocks run, options are those that are declared, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = re.compile(r"<!-- run: (\w+) -->\n```python\n(.*?)```", re.DOTALL)
OUTPUT = re.compile(r"<!-- output: (\w+) -->\n```\n(.*?)```", re.DOTALL)
OPTIONS = re.compile(r"<!-- options -->\n(.*?)<!-- /options -->", re.DOTALL)
BLOCKS = [(page, name, code) for page in PAGES for name, code in RUN.findall(page.read_text())]
CONNECTOR_PAGES = {name: ROOT / "docs" / f"{name}.md" for name in ("cassandra", "filesystem", "kafka", "pravega")}
KAFKA_VARIABLE = "PENSTOCK_KAFKA_ADDRESS"
PRAVEGA_VARIABLE = "PENSTOCK_PRAVEGA_ADDRESS"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    from penstock.dev import open_server
    from penstock_kafka.dev import KafkaDevServer, KafkaToolbox

    with open_server(KafkaDevServer(quick_start=True), tmp_path_factory.mktemp("kafka")) as address:
        yield KafkaToolbox(address)


@pytest.fixture(scope="module")
def pravega(tmp_path_factory):
    from penstock.dev import open_server
    from penstock_pravega.dev import PravegaDevServer

    with open_server(PravegaDevServer(quick_start=True), tmp_path_factory.mktemp("pravega")) as address:
        yield address


def on_topics_of_its_own(code, kafka):
    """The broker may be anybody's: ``in``, with two records, and ``out`` get other names."""
    records = [
        {"key": "a", "value": '{"id": 1, "at": "2026-01-01T10:00:00Z", "note": "one"}'},
        {"key": "b", "value": '{"id": 2, "at": "2026-01-01T10:00:05Z"}'},
    ]
    source, target = kafka.create_topic(partitions=2), kafka.create_topic()
    kafka.produce(source, records)
    return code.replace('"in"', f'"{source}"').replace('"out"', f'"{target}"')


@pytest.mark.spark
@pytest.mark.parametrize(("page", "name", "code"), BLOCKS, ids=[name for _, name, _ in BLOCKS])
def test_code_runs_and_prints_what_it_says(page, name, code, tmp_path, request):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
    environment.update(SPARK_LOCAL_IP="127.0.0.1", TZ="UTC")
    # As for whoever has not activated the environment whose Python they run.
    beside = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if p != beside)
    if KAFKA_VARIABLE in code:
        kafka = request.getfixturevalue("kafka")
        environment[KAFKA_VARIABLE] = kafka.address
        code = on_topics_of_its_own(code, kafka)
    if PRAVEGA_VARIABLE in code:
        environment[PRAVEGA_VARIABLE] = request.getfixturevalue("pravega")
        code = code.replace("plant/", f"docs-{uuid.uuid4().hex}/")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.csv").write_text(
        "id,at,note\n1,2026-01-01T10:00:00,first\n2,2026-01-01T10:05:00,\n", "utf-8"
    )
    (tmp_path / "job.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for expected in (text for found, text in OUTPUT.findall(page.read_text()) if found == name):
        assert expected in done.stdout


def test_there_are_blocks_to_run():
    assert {"files", "source", "kafka", "decoding", "pravega"} <= {name for _, name, _ in BLOCKS}


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


def test_readme_shows_every_installed_connector():
    from penstock.plugins import installed_connectors

    text = (ROOT / "README.md").read_text()
    for connector in installed_connectors():
        assert f"`{connector.format}`" in text
