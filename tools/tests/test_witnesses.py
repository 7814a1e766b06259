"""Tests that a test of the second tier, or a page, names as those that show the same: they must be there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("core/tests", *(f"connectors/{name}/tests" for name in ("cassandra", "filesystem", "kafka", "pravega")))
SUITES = (*FOLDERS, "core/src/penstock/testing", "integration-tests", "tools/tests")
FILES = sorted(path for folder in SUITES for path in (ROOT / folder).rglob("*.py"))
_DEFINED = re.compile(r"^ *def (\w+)\(", re.MULTILINE)
_NAMED = re.compile(r"(?:[\w/-]+/)?(test_\w+)(\.py)?(?:::(\w+))?")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def names_in(path: Path) -> set[str]:
    return set(_DEFINED.findall(path.read_text("utf-8")))


@cache
def in_the_first_tier(path: Path) -> set[str]:
    """Names of tests of which at least some cases run without ``--all``."""
    is_second = re.compile(r"pytest\.mark\.exhaustive\(")
    aliases = {
        target.id
        for one in parsed(path).body
        if isinstance(one, ast.Assign) and is_second.match(ast.unparse(one.value))
        for target in one.targets
        if isinstance(target, ast.Name)
    }

    def is_first(decorator: ast.expr) -> bool:
        return not is_second.match(ast.unparse(decorator)) and ast.unparse(decorator) not in aliases

    return {
        one.name
        for one in ast.walk(parsed(path))
        if isinstance(one, ast.FunctionDef) and all(map(is_first, one.decorator_list))
    }


def reasons(tree: ast.Module) -> Iterator[str]:
    """The texts of ``exhaustive(…)`` and of ``every(otherwise=…)``, also those that a constant of the module holds."""
    constants = {
        target.id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        arguments = [keyword.value for keyword in call.keywords if keyword.arg == "otherwise"]
        if getattr(call.func, "attr", "") == "exhaustive":
            arguments += call.args
        for argument in arguments:
            value = constants.get(argument.id, argument) if isinstance(argument, ast.Name) else argument
            for one in ast.walk(value):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value


def missing(reason: str, names_of: Callable[[Path], set[str]] = names_in) -> list[str]:
    found = []
    for file, is_file, name in _NAMED.findall(reason):
        holders = [path for path in FILES if path.stem == file]
        if is_file:
            there = bool(holders) and (not name or any(name in names_of(path) for path in holders))
        else:
            there = bool(holders) or any(file in names_of(path) for path in FILES)
        if not there:
            found.append(f"{file}{is_file}" + (f"::{name}" if name else ""))
    return found


def test_the_witnesses_that_are_named_exist():
    examples = ROOT / "tools/tests/test_suite.py"  # names tests that it writes
    found = {
        str(path.relative_to(ROOT)): gone
        for path in FILES
        if path != examples and (gone := [one for reason in reasons(parsed(path)) for one in missing(reason)])
    }
    assert found == {}


def test_a_witness_runs_without_all():
    examples = ROOT / "tools/tests/test_suite.py"
    found = {
        str(path.relative_to(ROOT)): late
        for path in FILES
        if path != examples
        and (late := [one for reason in reasons(parsed(path)) for one in missing(reason, in_the_first_tier)])
    }
    assert found == {}


def test_tests_that_a_page_names_exist():
    pages = [ROOT / "docs/guarantees.md", *(ROOT / "docs/decisions").glob("0019-*.md")]
    assert [one for page in pages for one in missing(page.read_text("utf-8"))] == []


def test_a_witness_that_is_not_there_is_found():
    text = 'WHY = "long; test_gone.py::test_a has it"\nmark = pytest.mark.exhaustive(WHY)\n'
    assert [missing(one) for one in reasons(ast.parse(text))] == [["test_gone.py::test_a"]]
    assert missing("slow; test_witnesses.py::test_a_witness_that_is_not_there_is_found has it") == []
    assert missing("test_witnesses.py::test_no_more") == ["test_witnesses.py::test_no_more"]
    assert missing("slow; test_nowhere has it") == ["test_nowhere"]
