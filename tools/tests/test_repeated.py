"""Logic that is written twice is found, and one shape of two kinds of logic can be explained."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from repeated.checking import Explained, problems, repeated_in

ONE = """
    found = {}
    for name, size in sorted(sizes.items()):
        if size > most and name not in found:
            found[name] = min(size, most * 2)
        elif size < 0:
            raise ValueError(f"{name} has no size")
    return [name for name, size in found.items() if size]
"""
#: The same with other names, texts and numbers.
OTHER = """
    rows = {}
    for key, value in sorted(table.items()):
        if value > limit and key not in rows:
            rows[key] = min(value, limit * 10)
        elif value < 1:
            raise ValueError(f"{key}: no value")
    return [key for key, value in rows.items() if value]
"""
#: One name stands for two of the other.
MIXED = OTHER.replace("key not in rows", "key not in table")


@pytest.fixture
def workspace(tmp_path):
    """Writes modules of a core and a connector; returns what is reported, with ``explained``."""

    def write(core, connector, *explained):
        for path, text in (("core/src/penstock/a.py", core), ("connectors/kafka/src/penstock_kafka/b.py", connector)):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return list(problems(repeated_in(tmp_path), explained))

    return write


def function(name, body, parameters):
    return f'def {name}({parameters}):\n    """Does it."""\n{indent(dedent(body), "    ")}\n'


def explained(why="so it is", *places):
    names = places or ("core/src/penstock/a.py:large", "connectors/kafka/src/penstock_kafka/b.py:Table.wide")
    return Explained(names, why)


@pytest.mark.parametrize(("body", "how"), [(ONE, "word for word"), (OTHER, "with other names")])
def test_logic_in_two_places_is_found(workspace, body, how):
    method = "class Table:\n" + indent(function("wide", body, "self, sizes, most, table, limit"), "    ")
    (problem,) = workspace(function("large", ONE, "sizes, most"), method)
    assert "core/src/penstock/a.py:4-10 (large)" in problem and "b.py:5-11 (Table.wide)" in problem and how in problem


@pytest.mark.parametrize("body", [MIXED, "return 1", OTHER.replace("value > limit", "value + limit")])
def test_other_logic_is_not(workspace, body):
    assert workspace(function("large", ONE, "sizes, most"), function("wide", body, "table, limit")) == []


def test_a_part_of_a_longer_function_is_found(workspace):
    longer = "table = dict(limits)\nlimit = len(table) // 2\n" + dedent(OTHER)
    (problem,) = workspace(function("large", ONE, "sizes, most"), function("wide", longer, "limits"))
    assert "b.py:6-12 (wide)" in problem


def test_what_stands_twice_in_one_module_is_found_once(workspace):
    body = dedent(ONE).replace("return ", "most = ")
    (problem,) = workspace(function("large", body + body, "sizes, most"), "")
    assert problem.count("(large)") == 2


def test_a_shape_can_be_explained_and_a_copy_not(workspace):
    method = "class Table:\n" + indent(function("wide", OTHER, "self, table, limit"), "    ")
    assert workspace(function("large", ONE, "sizes, most"), method, explained()) == []
    method = "class Table:\n" + indent(function("wide", ONE, "self, sizes, most"), "    ")
    found = workspace(function("large", ONE, "sizes, most"), method, explained())
    assert any("word for word" in line for line in found)


def test_an_explanation_that_no_longer_applies_is_reported(workspace):
    one, other = workspace(function("large", ONE, "sizes, most"), "", explained("they differ"))
    assert "a.py:large is explained (they differ), but repeats nothing" in one and "Table.wide" in other


def test_tests_and_templates_may_repeat_themselves(workspace, tmp_path):
    template = tmp_path / "core/src/penstock/testing/_samples/reader.py"
    template.parent.mkdir(parents=True)
    template.write_text(function("read", OTHER, "table, limit"))
    case = "class Cases:\n" + indent(function("test_wide", OTHER, "self, table, limit"), "    ")
    assert workspace(function("large", ONE, "sizes, most"), case) == []
