"""Error codes: each error has one, each code is raised somewhere and stands on the page, no number is used twice."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import penstock
from penstock import errors
from penstock._causes import carries_ours
from penstock._error_book import CODE, ErrorBook, book_of, code_for
from penstock.cli import app
from penstock.errors import BadConfigurationError, BadDataError, PenstockError, RetriableError, RetriesExhaustedError
from suite.pages import ROOT

PACKAGES = {
    "penstock": ROOT / "core/src",
    **{f"penstock_{name}": ROOT / f"connectors/{name}/src" for name in ("cassandra", "filesystem", "kafka", "pravega")},
}
BOOKS = {name: book for name in PACKAGES if (book := book_of(name)) is not None}
PAGE = ROOT / "docs/errors.md"
#: Every code that was ever released, with its title.
KEPT = ROOT / "core/tests/golden/error-codes.json"
#: Codes of a class, for what has none of its own.
GENERAL = {f"PENSTOCK-CORE-{number:03d}" for number in range(1, 8)}


#: Samples and stand-ins of the kit; and what has the code of the last failure.
HAVE_NONE = r"/testing/|/retry\.py"


class Seen(NamedTuple):
    """What our modules define and call: names of classes and of their bases; and calls of :func:`sites`' form."""

    classes: list[tuple[str, list[str]]]
    calls: list[tuple[str, str, str, str | None]]


@functools.cache  # when a test asks for it: every process collects this file, and one runs it
def seen() -> Seen:
    found = Seen([], [])
    for root in PACKAGES.values():
        for path in sorted(root.rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found.classes.append((node.name, [base.id for base in node.bases if isinstance(base, ast.Name)]))
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    given = [one.value for one in node.keywords if one.arg == "error_code"]
                    name = given[0].id if given and isinstance(given[0], ast.Name) else None
                    found.calls.append((module, f"{path}:{node.lineno}", node.func.id, name))
    return found


@functools.cache
def classes() -> dict[str, tuple[str, ...]]:
    """By name, each class of ours with the names of its bases that are ours."""
    known = {
        name: tuple(one.__name__ for one in kind.__mro__ if issubclass(one, PenstockError))
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, PenstockError)
    }
    for _ in range(4):
        for name, direct in seen().classes:
            bases = [base for base in direct if base in known]
            if bases:
                known[name] = (name, *known[bases[0]])
    return known


def sites() -> list[tuple[str, str, str, str | None]]:
    """Module, line and class of each error that is made, and the name of the code that it is given."""
    return [call for call in seen().calls if call[2] in classes()]


def book_module(package: str) -> str:
    return "penstock.error_codes" if package == "penstock" else f"{package}._error_codes"


def constants(package: str) -> dict[str, str]:
    """By name, the codes that a package's modules give to errors: its own, and the core's."""
    names = dict.fromkeys(("penstock.error_codes", book_module(package)))
    modules = [importlib.import_module(one) for one in names]
    found = [(name, text) for module in modules for name, text in vars(module).items()]
    return {name: text for name, text in found if isinstance(text, str) and CODE.fullmatch(text)}


def raised() -> set[str]:
    found = {
        constants(module.partition(".")[0])[name] if name else code_for(module, classes()[kind])
        for module, _, kind, name in sites()
    }
    for package, root in PACKAGES.items():
        named = constants(package)
        texts = [path.read_text() for path in root.rglob("*.py") if not path.name.endswith("error_codes.py")]
        names = {name for text in texts for name in re.findall(r"\b[A-Z][A-Z_]{3,}\b", text)}
        found |= {named[name] for name in names & set(named)}
    return found


def test_every_package_has_a_book():
    assert set(BOOKS) == set(PACKAGES)


def test_every_error_has_a_code_and_most_have_one_of_their_own():
    codes = [(where, code_for(module, classes()[kind])) for module, where, kind, name in sites() if name is None]
    assert [where for where, code in codes if not CODE.fullmatch(code)] == []
    general = [where for where, code in codes if code in GENERAL and not re.search(HAVE_NONE, where)]
    assert general == [], "give these modules a code in their package's error_codes"


def test_every_code_is_raised_somewhere():
    declared = {one.code for book in BOOKS.values() for one in book} - GENERAL
    assert declared - raised() == set()


def test_every_module_that_a_code_names_exists():
    def is_there(place: str) -> bool:
        module, _, kind = place.partition(":")
        found = not module or importlib.util.find_spec(module) is not None
        return found and (not kind or kind in classes())

    lost = [(one.code, place) for book in BOOKS.values() for one in book for place in one.raised_in]
    assert [one for one in lost if not is_there(one[1])] == []


def test_no_number_is_ever_used_for_another_situation():
    now = {one.code: one.title for book in BOOKS.values() for one in book}
    if os.environ.get("REWRITE_DOCS"):
        KEPT.write_text(json.dumps({**json.loads(KEPT.read_text() if KEPT.exists() else "{}"), **now}, indent=1) + "\n")
    kept = json.loads(KEPT.read_text())
    assert {code: title for code, title in kept.items() if code in now} == now, "a new code is recorded by REWRITE_DOCS"


def test_a_number_is_declared_once():
    book = ErrorBook("NOTES", retired=[3])
    assert book.add(1, "a", causes=["b"], remedies=["c"]) == "PENSTOCK-NOTES-001"
    for number in (1, 3, 0, 1000):
        with pytest.raises(ValueError, match="take another number"):
            book.add(number, "a", causes=["b"], remedies=["c"])
    with pytest.raises(ValueError, match="capital letters"):
        ErrorBook("notes")


def page() -> str:
    lines = []
    for package, book in BOOKS.items():
        lines += [f"## {package.replace('_', '-')}", ""]
        for one in book:
            lines += [f'<a id="{one.code.lower()}"></a>', "", f"### {one.code}: {one.title}", "", "Causes:", ""]
            lines += [*(f"- {text}" for text in one.causes), "", "What to do:", ""]
            lines += [*(f"- {text}" for text in one.remedies), ""]
    return "\n".join(lines)


def test_the_page_has_every_code():
    """To renew it: REWRITE_DOCS=1 scripts/test core/tests/test_error_codes.py"""
    text = PAGE.read_text()
    head, begin, rest = text.partition("<!-- codes -->\n")
    _, end, tail = rest.partition("<!-- /codes -->")
    assert begin and end
    expected = f"{head}{begin}\n{page()}\n{end}{tail}"
    if os.environ.get("REWRITE_DOCS"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected


# --- what carries a code ----------------------------------------------------------------------------------------------


def test_the_innermost_module_decides_and_in_it_the_class():
    book = ErrorBook("NOTES")
    book.add(1, "all", causes=[], remedies=[], raised_in=["notes"])
    book.add(2, "inner", causes=[], remedies=[], raised_in=["notes.client"])
    book.add(3, "its retriable ones", causes=[], remedies=[], raised_in=["notes.client:RetriableError"])
    book.add(4, "those that are over", causes=[], remedies=[], raised_in=["notes.client:RetriesExhaustedError"])
    fatal = classes()["BadDataError"]
    assert book.code_in("notes.sink", fatal) == "PENSTOCK-NOTES-001"
    assert book.code_in("notes.client._x", fatal) == "PENSTOCK-NOTES-002"
    assert book.code_in("notes.client._x", classes()["RetriableError"]) == "PENSTOCK-NOTES-003"
    assert book.code_in("notes.client._x", classes()["RetriesExhaustedError"]) == "PENSTOCK-NOTES-004"
    assert book.code_in("other", fatal) is None and book.code_in("notesandmore", fatal) is None


def test_an_error_of_a_users_own_module_has_the_code_of_its_class():
    assert BadDataError("row 3").error_code == "PENSTOCK-CORE-002"
    assert RetriesExhaustedError("over").error_code == "PENSTOCK-CORE-005"


def test_an_error_that_repeats_another_has_its_code():
    inner = BadConfigurationError("no such bucket", error_code="PENSTOCK-CORE-060")

    def wrapped(text: str, kind: type[PenstockError]) -> PenstockError:
        try:
            raise inner
        except PenstockError:
            return kind(text)

    assert wrapped("listing: no such bucket; tried 3 times", RetriesExhaustedError).error_code == "PENSTOCK-CORE-060"
    assert wrapped("something else", RetriableError).error_code == "PENSTOCK-CORE-004"


def test_the_code_survives_pickling_and_a_trace_shows_it_below_the_message():
    error = pickle.loads(pickle.dumps(BadDataError("row 3", error_code="PENSTOCK-CORE-018")))
    assert error.error_code == "PENSTOCK-CORE-018" and str(error) == "row 3"
    if sys.version_info >= (3, 11):
        assert traceback.format_exception(error)[-2:] == [
            "penstock.errors.BadDataError: row 3\n",
            "[PENSTOCK-CORE-018]\n",
        ]


def test_explain_tells_the_words_and_the_code():
    assert penstock.explain(BadDataError("row 3 of s3://u:hunter2@b is bad")) == (
        "row 3 of s3://***@b is bad [PENSTOCK-CORE-002]"
    )
    carried = (
        'Traceback (most recent call last):\n  File "/x/site-packages/penstock/y.py", line 3, in f\n'
        "penstock.errors.BadDataError: row 3 is bad\n[PENSTOCK-FILES-004]\n\tat org.apache.spark.Z(Y.scala:1)\n"
    )
    assert penstock.explain(Exception(carried)) == "row 3 is bad [PENSTOCK-FILES-004]"
    of_a_user = (
        'Traceback (most recent call last):\n  File "/x/site-packages/pyspark/worker.py", line 3, in main\n'
        '  File "/home/a/job.py", line 12, in tagged\nValueError: seven\n\tat org.apache.spark.Z(Y.scala:1)\n'
    )
    assert (
        penstock.explain(Exception(of_a_user)) == "ValueError: seven (job.py, line 12, in tagged) [PENSTOCK-CORE-072]"
    )


SCRIPT = """
import sys
from penstock.errors import BadDataError
from penstock.spark._last_words import print_last_words
before = sys.excepthook
print_last_words(); print_last_words()
def fail(): raise BadDataError("row 3 is bad")
"""


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("fail()", "penstock: row 3 is bad [PENSTOCK-CORE-002]"),
        ("import threading; t = threading.Thread(target=fail); t.start(); t.join(); sys.exit(1)", "penstock: row 3 is"),
        ("raise ValueError('mine')", "ValueError: mine"),
        ("raise SystemExit(1)", ""),
    ],
)
def test_the_last_line_of_a_script_is_ours_and_its_end_as_before(end, last):
    pytest.importorskip("pyspark")
    ended = subprocess.run([sys.executable, "-c", SCRIPT + end], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    lines = ended.stderr.splitlines() or [""]
    assert lines[-1].startswith(last) and sum("penstock: " in line for line in lines) == (
        1 if "penstock" in last else 0
    )


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        (
            '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "penstock.files" cannot be written in the '
            '"ErrorIfExists" mode. Please use either the "Append" or "Overwrite" mode instead. SQLSTATE: 0A000',
            "cannot be written in the \"ErrorIfExists\" mode: write .mode('append') before .save() [PENSTOCK-CORE-073]",
        ),
        (
            "[REQUIRES_SINGLE_PART_NAMESPACE] spark_catalog requires a single-part namespace, but got identifier "
            "`penstock`.`files`.`/in`. SQLSTATE: 42K05",
            "a format is no table: read it with spark.read.format, or CREATE TEMPORARY VIEW … USING it "
            "[PENSTOCK-CORE-073]",
        ),
    ],
)
def test_advice_of_spark_that_does_not_hold_for_our_formats_is_replaced(said, ours):
    assert carries_ours(Exception(said)) and penstock.explain(Exception(said)).endswith(ours)
    others = said.replace("penstock", "noses")
    assert not carries_ours(Exception(others)) and not penstock.explain(Exception(others)).endswith(ours)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_explains_a_code():
    made = CliRunner().invoke(app, ["explain", "kafka-001"])
    assert made.exit_code == 0 and "No Kafka broker answers" in made.stdout and "what to do" in made.stdout
    as_json = CliRunner().invoke(app, ["explain", "[PENSTOCK-CORE-010]", "--json"])
    assert json.loads(as_json.stdout)["code"] == "PENSTOCK-CORE-010"


def test_the_command_refuses_what_is_no_code():
    near = CliRunner().invoke(app, ["explain", "PENSTOCK-CORE-10"])
    assert "codes are written as in PENSTOCK-KAFKA-001; did you mean 'PENSTOCK-CORE-010'?" in str(near.exception)
    made = CliRunner().invoke(app, ["explain", "PENSTOCK-KAFKA-900"])
    assert isinstance(made.exception, BadConfigurationError) and "there is no code" in str(made.exception)


@pytest.mark.parametrize("name", sorted(BOOKS))
def test_titles_causes_and_remedies_are_sentences(name):
    for one in BOOKS[name]:
        assert one.title[0].isupper() and not one.title.endswith(".")
        assert one.causes and one.remedies and all(text.endswith((".", ")")) for text in (*one.causes, *one.remedies))


def test_files_named_in_remedies_exist():
    texts = [text for book in BOOKS.values() for one in book for text in (*one.causes, *one.remedies)]
    for path in {found for text in texts for found in re.findall(r"docs/[\w/.-]+?(?=[.,)]*(?:\s|$|\)))", text)}:
        assert Path(ROOT, path).exists() or Path(ROOT, f"{path}.md").exists(), path
