"""The check of prose: what it finds in pages and sources, and what it leaves alone."""

from __future__ import annotations

import pytest

from prose.__main__ import main
from prose.pages import MOST_WORDS, check_page
from prose.sources import check_python, check_shell
from prose.words import PHRASES, findings


def wrong(text):
    return [finding.wrong for finding in check_page(text)]


@pytest.mark.parametrize(
    "text",
    [
        "A fault is told by its id.",
        "Errors are mended later.",
        "The query goes on.",
        "The query\ngoes on.",
        "| option | whoever sets it |\n| --- | --- |",
        "## What nobody knows",
        "- A file is made anew.",
        "[It is told](page.md).",
    ],
)
def test_phrases_to_avoid_are_found_in_every_part_of_a_page(text):
    assert any(line.startswith('"') for line in wrong(text))


@pytest.mark.parametrize(
    "text",
    [
        "`told` is the name of a function.",
        "```\nIt is told anew.\n```",
        "````\n```\nIt is told. It is told.\n````",
        "<!-- options -->\n## Options Of The Sink\n| a | told |\n\nTold. Told.\n<!-- /options -->",
        "<!-- bench: kafka -->\nTold. Told.\n<!-- /bench -->",
        "---\ntitle: told\n---",
        "[a page](told.md) is there.",
        "The untold and the retold.",
    ],
)
def test_code_generated_parts_and_targets_of_links_are_left_out(text):
    assert wrong(text) == []


def test_text_behind_a_generated_part_is_read():
    text = "<!-- options -->\ntold\n<!-- /options -->\n\n<!-- run: a -->\n```\ntold\n```\n\nIt is told."
    assert [finding.line for finding in check_page(text)] == [10]


@pytest.mark.parametrize(
    "text",
    [
        "One sentence. Another one.",
        "Is it one? `code` begins the second.",
        "It ends (here.) Another begins.",
        "- One. Two.",
        "**A label.** One. Two.",
    ],
)
def test_two_sentences_on_a_line_are_found(text):
    assert wrong(text) == ["more than one sentence on a line"]


@pytest.mark.parametrize(
    "text",
    [
        "One sentence.\nAnother one.",
        "**A label.** One sentence.",
        "*Latency:* one sentence.",
        "Version 4.2 of Spark 4.1.",
        "1. One sentence.\n   Another one.\n2. A third.",
        "A, B etc. C is one.",
        "It prints:\n\n```\nx. Y.\n```",
        "| One. Two. | three |",
        "- an item without a dot\n- another",
    ],
)
def test_one_sentence_a_line_is_fine(text):
    assert wrong(text) == []


@pytest.mark.parametrize("text", ["A sentence that\ngoes over two lines.", "- An item that\n  has two lines."])
def test_a_sentence_over_lines_is_found(text):
    assert "a sentence that runs over lines" in wrong(text)


def test_long_sentences_are_found_and_code_is_one_word():
    assert wrong(" ".join(["word"] * MOST_WORDS) + ".") == []
    assert wrong(" ".join(["word"] * (MOST_WORDS + 1)) + ".") == [f"a sentence of {MOST_WORDS + 1} words"]
    assert wrong("`" + " ".join(["code"] * 100) + "` runs.") == []


def test_headings_are_in_sentence_case():
    assert wrong("## Kafka and Spark's PySpark on S3") == []
    assert wrong("## How it works: PySpark's view") == []
    assert wrong("## How Things work") == ["heading with a capital letter in 'Things'"]


def test_python_is_read_where_it_is_prose():
    text = '''"""The caller,
or whoever calls."""

def told(a):  # anew
    """Returns ``told``."""
    raise ValueError("it was told before")

TOLD = "told"
'''
    found = [(finding.line, finding.wrong) for finding in check_python(text)]
    assert found == [(2, '"whoever"'), (4, '"anew"'), (6, '"told"')]


def test_docstrings_of_functions_start_with_a_verb():
    text = '''
class A:
    """What it is."""

    def name(self):
        """What it is called."""

    @property
    def size(self):
        """How large it is."""

    def go(self):
        """Returns what it finds."""

def of():
    """Of a thing, its parts."""
'''
    assert [finding.line for finding in check_python(text)] == [6, 16]


def test_shell_is_read_in_comments_and_messages():
    text = '#!/bin/sh\n# It is told.\n\necho "told"\ncd `told`\n'
    assert [finding.line for finding in check_shell(text)] == [2, 4]


@pytest.mark.parametrize("phrase", PHRASES, ids=[phrase.pattern for phrase in PHRASES])
def test_the_advice_is_not_a_phrase_to_avoid(phrase):
    assert list(findings(phrase.instead, 1)) == []


def test_problems_are_printed_with_file_and_line_and_fail(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("prose.__main__.ROOT", tmp_path)
    (tmp_path / "page.md").write_text("It works.\n\nIt is told.\n")
    (tmp_path / "good.md").write_text("It works.\n")
    assert main(["page.md", "good.md"]) == 1
    assert capsys.readouterr().err.startswith('page.md:3: "told": say: ')
    assert main(["good.md"]) == 0
