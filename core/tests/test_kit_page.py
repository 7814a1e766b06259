"""The page of the kit's cases: every case of every suite, with what it stands for in production, in its own words."""

from __future__ import annotations

import os
import re

import pytest

from penstock.testing import SinkSuite, SourceSuite, SparkSinkSuite, SparkSourceSuite
from suite.pages import ROOT

PAGE = ROOT / "docs" / "authors" / "cases.md"
TABLES = re.compile(r"<!-- cases -->\n(.*?)<!-- /cases -->", re.DOTALL)
#: By side: the suite that needs no Spark, and that on Spark.
SIDES = {"Sinks": (SinkSuite, SparkSinkSuite), "Sources": (SourceSuite, SparkSourceSuite)}


def cases_of(suite: type) -> set[str]:
    return {name for name in dir(suite) if name.startswith("test_")}


def purpose_of(suite: type, case: str) -> str:
    """Returns the first section of a case's docstring, in Markdown."""
    found = re.match(r"Purpose:\s*(.*?)\s*(?=\n\s*\n|\n\s*Steps:)", getattr(suite, case).__doc__ or "", re.DOTALL)
    assert found, f"{suite.__name__}.{case} does not say what it stands for"
    text = " ".join(found[1].split()).replace("``", "`")
    return text[0].upper() + text[1:] if text[0].isalpha() else text


def tables() -> str:
    lines = []
    for side, (plain, on_spark) in SIDES.items():
        lines += ["", f"## {side}", "", "| case | what it stands for in production | runs |", "| --- | --- | --- |"]
        for case in sorted(cases_of(plain) | cases_of(on_spark)):
            engines = [
                words for suite, words in ((plain, "without Spark"), (on_spark, "on Spark")) if hasattr(suite, case)
            ]
            first = plain if hasattr(plain, case) else on_spark
            lines.append(f"| `{case}` | {purpose_of(first, case)} | {', '.join(engines)} |")
    return "\n".join(lines) + "\n\n"


def test_the_page_has_every_case():
    """To renew it: REWRITE_DOCS=1 scripts/test core/tests/test_kit_page.py"""
    wanted = tables()
    if os.environ.get("REWRITE_DOCS"):
        PAGE.write_text(TABLES.sub(lambda _: f"<!-- cases -->\n{wanted}<!-- /cases -->", PAGE.read_text()))
    assert TABLES.search(PAGE.read_text())[1] == wanted


@pytest.mark.parametrize("suite", [suite for suites in SIDES.values() for suite in suites])
def test_every_case_says_what_it_stands_for(suite):
    assert cases_of(suite)
    assert all(len(purpose_of(suite, case)) > 15 for case in cases_of(suite))
