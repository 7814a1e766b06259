"""The documentation site, without building it: links and anchors lead somewhere, every page can be reached."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from benchmarks.measuring import FIRST_PAGE, OF_GROWTH, Results, ratios_of_all, shown_on
from benchmarks.measuring import PAGES as MEASURED_ON
from benchmarks.measuring import PICTURES as DRAWN
from docs_site.markdown import anchors, link_targets, title_of
from docs_site.pages import ROOT, expand_navigation, is_relative, navigation_pages, page_of, site_markdown

SVG = "{http://www.w3.org/2000/svg}"


def markdown_files():
    """Every page of the repository, but for folders that are made (``.venv``, ``.cache``, ``build`` …)."""
    found = []
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in ("build", "dist")]
        found += [str((Path(folder) / name).relative_to(ROOT)) for name in names if name.endswith(".md")]
    return sorted(found)


PAGES = markdown_files()
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


def navigation():
    return expand_navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_lead_somewhere(page):
    path = ROOT / page
    for target in link_targets(path.read_text("utf-8")):
        file, _, anchor = target.partition("#")
        if file and not is_relative(target):
            continue
        wanted = path.parent / file if file else path
        assert wanted.exists(), f"{page}: {target} is not there"
        assert ROOT in wanted.resolve().parents, f"{page}: {target} leads out of the repository"
        if anchor:
            assert anchor in anchors(wanted.read_text("utf-8")), f"{page}: no heading for #{anchor} in {wanted.name}"


def test_the_pages_that_are_looked_at_are_all():
    assert {"README.md", "CONTRIBUTING.md", "docs/kafka.md", "connectors/kafka/README.md"} <= set(PAGES)


def test_every_page_of_the_docs_is_in_the_navigation_once():
    listed = navigation_pages(navigation())
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages - set(listed) == set()
    assert len(listed) == len(set(listed))


def test_the_navigation_names_only_what_there_is():
    listings = {page_of(str(path.relative_to(ROOT))): path for path in (ROOT / "docs" / "api").glob("*.txt")}
    listed = set(navigation_pages(navigation()))
    for page in listed - {"index.md", "contributing.md"} - set(listings):
        assert (ROOT / "docs" / page).exists(), page
    assert set(listings) <= listed


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_pages_have_a_title(page):
    assert title_of((ROOT / page).read_text("utf-8"))


@pytest.mark.parametrize(
    ("page", "written", "on_the_site"),
    [
        ("README.md", "[a](docs/kafka.md#memory)", "[a](kafka.md#memory)"),
        ("README.md", "[a](docs/decisions)", "[a](decisions/README.md)"),
        ("README.md", "[a](LICENSE)", "[a](source/LICENSE.md)"),
        ("README.md", "[a](examples/penstock-sqlite)", "[a](source/examples/penstock-sqlite/README.md)"),
        ("docs/kafka.md", "[`a`](#memory)", "[`a`](#memory)"),
        ("docs/kafka.md", "[a](../README.md)", "[a](index.md)"),
        (
            "docs/guarantees.md",
            "[`two_phase.py`](../core/src/penstock/_commit/_two_phase.py)",
            "[`two_phase.py`](source/core/src/penstock/_commit/_two_phase.py.md)",
        ),
        ("docs/authors/README.md", "[a](../api/README.md)", "[a](../api/README.md)"),
        ("docs/api/README.md", "[a](penstock.txt)", "[a](penstock.txt.md)"),
        ("docs/architecture.md", "![a](pictures/row.svg)", "![a](pictures/row.svg)"),
        ("README.md", "[a](https://example.org/docs/kafka.md)", "[a](https://example.org/docs/kafka.md)"),
        (
            "README.md",
            '<picture>\n<source media="(prefers-color-scheme: dark)" srcset="docs/pictures/row.svg">\n'
            '<img alt="a" src="docs/pictures/commit.svg">\n</picture>',
            "![a](pictures/commit.svg#only-light)![a](pictures/row.svg#only-dark)",
        ),
        ("README.md", "`[a](docs/kafka.md)`", "`[a](docs/kafka.md)`"),
        ("README.md", "```\n[a](docs/kafka.md)\n```\n", "```\n[a](docs/kafka.md)\n```\n"),
    ],
)
def test_links_on_the_site(page, written, on_the_site):
    assert site_markdown(page, written) == on_the_site


def test_links_and_headings_are_told_from_code():
    text = "# One, `two` & three\n\n[x](a.md) `[y](b.md)`\n\n````\n# no\n```\n[z](c.md)\n````\n## [Four](d.md)\n"
    assert link_targets(text) == ["a.md", "d.md"]
    assert anchors(text) == {"one-two--three", "four"}
    assert title_of(text) == "One, two & three"


@pytest.mark.parametrize("picture", PICTURES, ids=[path.name for path in PICTURES])
def test_pictures_say_what_they_show_and_need_nothing_else(picture):
    root = ElementTree.parse(picture).getroot()
    assert root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")
    assert not re.search(r"(href|url\()\s*=?\s*[\"']?(https?:)?//", picture.read_text("utf-8"))
    name = re.escape(picture.name)
    embedded = re.compile(
        rf'!\[([^\]]{{20,}})\]\([^)]*{name}\)|srcset="[^"]*{name}">\s*<img alt="[^"]{{20,}}"'
        rf'|<img alt="[^"]{{20,}}" src="[^"]*{name}"'
    )
    assert any(embedded.search((ROOT / page).read_text("utf-8")) for page in PAGES), (
        "no page shows it, with words for it"
    )


def test_what_builds_the_site_is_pinned_by_name_and_version():
    lines = Path(ROOT / "docs" / "requirements.txt").read_text("utf-8").split()
    assert lines
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*", line), line


def test_the_site_needs_no_other_host_and_searches_without_a_server():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert {"search", "offline"} <= set(settings["plugins"]) and settings["use_directory_urls"] is False
    assert settings["theme"]["font"] is False
    scripts = settings["extra"]["polyfills"]
    assert any("iframe-worker" in path for path in scripts), "else the plugin fetches it from another host"
    for path in (*scripts, *settings["extra_css"]):
        assert "//" not in (ROOT / "docs" / path).read_text("utf-8").replace("// Search", "")


MEASURED = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("results", MEASURED, ids=[path.stem for path in MEASURED])
def test_tables_and_pictures_of_performance_are_those_of_the_results(results):
    """To renew them: python -m benchmarks.measuring"""
    stored = Results(results)
    assert stored.block(results.stem) in shown_on(results.stem).read_text("utf-8")
    drawn = {
        path.name: path.read_text("utf-8") for path in DRAWN.glob("*.svg") if path.name in stored.pictures(results.stem)
    }
    assert drawn == stored.pictures(results.stem)


def test_every_picture_of_results_has_results():
    wanted = {name for path in MEASURED for name in Results(path).pictures(path.stem)}
    assert {path.name for path in DRAWN.glob("performance-*.svg")} == wanted


def test_the_first_page_of_performance_has_the_ratios_of_all_results():
    """To renew them: python -m benchmarks.measuring"""
    results = ROOT / "benchmarks" / "results"
    assert ratios_of_all(results) in FIRST_PAGE.read_text("utf-8")
    assert {path.stem for path in MEASURED} <= {*MEASURED_ON, *OF_GROWTH}
