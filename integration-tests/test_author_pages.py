"""The pages for authors, followed literally: each in an empty directory and an environment without Penstock.

A block is ``sh`` (run, in order; ``sh fails`` must fail, ``sh not run`` says why beside it), ``python file=PATH``
(written there) or ``text output`` (lines that the commands before it print, in this order).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from environments import Environment

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "authors"
FENCE = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What a page's ``pytest`` leaves out here: the slowest case, and Spark, for which one page is enough.
BRIEFLY = "-m 'not spark' -k 'not bounded_memory'"
WITH_SPARK = "-k 'not bounded_memory and (not OnSpark or test_rows_arrive or test_a_restart)'"
NOT_RUN = {("publish-it.md", "twine upload")}


@dataclass(frozen=True)
class Block:
    language: str
    tag: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(page.read_text())]


class Reader:
    """Does what a page says, in ``home``."""

    def __init__(self, environment: Environment, home: Path, wheels: Path, cases: str) -> None:
        self._environment = environment
        self._place = home
        self._wheels = wheels
        self._cases = cases
        self._printed = ""

    def follow(self, block: Block) -> None:
        if block.language == "python":
            path = self._place / block.tag.removeprefix("file=")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "text":
            self._expect(block.text)
        elif block.tag != "not run":
            self._run(block.text, fails=block.tag == "fails")

    def _run(self, commands: str, *, fails: bool) -> None:
        # Offline: Penstock comes from its wheel, what builds packages is there, and the rest is linked.
        variables = {"PIP_FIND_LINKS": str(self._wheels), "PIP_NO_BUILD_ISOLATION": "0", "COLUMNS": "120"}
        variables["PYTEST_ADDOPTS"] = self._cases
        script = f"set -e\n{commands}\npwd > '{self._place}/.place'\n"
        done = self._environment.run(
            "bash", "-c", script, cwd=self._place, status=1 if fails else 0, timeout=900, **variables
        )
        self._printed = done.stdout + done.stderr
        place = self._place / ".place"
        if place.exists():
            self._place = Path(place.read_text().strip())
            place.unlink()

    def _expect(self, lines: str) -> None:
        at = 0
        for line in lines.splitlines():
            found = self._printed.find(line.strip(), at)
            assert found >= 0, f"not printed (here): {line!r}\n{self._printed[-4000:]}"
            at = found + len(line.strip())


@pytest.fixture
def reader(wheels, tmp_path, cases):
    core = wheels.wheel(ROOT / "core")
    environment = Environment(tmp_path / "environment", [core], ["penstock[testing]", "pip", "poetry-core"])
    environment.uninstall("penstock")  # what it needs stays; it is got as the page says
    assert not (environment.bin / "penstock").exists()
    home = tmp_path / "home"
    home.mkdir()
    return Reader(environment, home, core.parent, cases)


@pytest.mark.spark
@pytest.mark.budget(40)
@pytest.mark.parametrize(
    ("page", "cases"),
    [
        pytest.param(
            "write-a-source",
            BRIEFLY,
            id="write-a-source",
            marks=pytest.mark.exhaustive(
                "half a minute; test_a_new_package_passes_the_kit has a source, and options is a page that is followed"
            ),
        ),
        pytest.param(
            "write-a-sink",
            BRIEFLY,
            id="write-a-sink",
            marks=pytest.mark.exhaustive("a minute; test_a_new_package_passes_the_kit is the witness"),
        ),
        pytest.param("options", "", id="options"),
        pytest.param(
            "prove-it",
            BRIEFLY,
            id="prove-it",
            marks=pytest.mark.exhaustive("half a minute; test_a_new_package_passes_the_kit is the witness"),
        ),
        pytest.param(
            "publish-it",
            WITH_SPARK,
            id="publish-it",
            marks=pytest.mark.exhaustive("wheels and Spark; test_files_are_written_and_read_with_the_wheel has both"),
        ),
        pytest.param(
            "publish-it",
            "",
            id="publish-it, all cases",
            marks=pytest.mark.exhaustive(
                "all cases of the kit on Spark; core/tests/test_kit.py has them for the connector that is copied there"
            ),
        ),
    ],
)
def test_a_page_can_be_followed(page, reader):
    for block in blocks_of(PAGES / f"{page}.md"):
        reader.follow(block)


def test_every_block_is_followed():
    """The test runs all code on these pages."""
    assert len(list(PAGES.glob("*.md"))) == 9
    for page in PAGES.glob("*.md"):
        for block in blocks_of(page):
            if not block.language:
                assert page.name in ("README.md", "layout.md"), "pictures"
            elif block.language == "python":
                assert block.tag.startswith("file="), block
            elif block.language == "text":
                assert block.tag == "output", block
            elif block.tag == "not run":
                assert any(page.name == name and part in block.text for name, part in NOT_RUN), block
            else:
                assert block.language == "sh" and block.tag in ("", "fails"), block
