"""Each declared option has a test that fails if its value is ignored: the table is whole, and it is true."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from option_tests.declared import CONNECTORS, declared_options, read_table

ROOT = Path(__file__).parents[2]


def functions_of(file):
    """The functions and classes of a file, and whether each has several cases."""
    tree = ast.parse((ROOT / file).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {node.name: any("parametrize" in ast.unparse(one) for one in node.decorator_list) for node in found}


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_option_has_a_test_or_a_reason(connector):
    noted = read_table().get(connector, {})
    declared = {one.key for one in declared_options(connector)}
    advice = f"run scripts/options {connector} --missing, and write a test for what it does not find"
    assert declared - noted.keys() == set(), advice
    assert noted.keys() - declared == set(), "no such options (any more)"
    for key, test in noted.items():
        if test.startswith("-"):
            assert len(test) > 10, f"{key}: say why"
            continue
        file, _, name = test.partition("::")
        functions = functions_of(file)
        # Of a class its name: the kit's tests are in a base of it.
        function = re.split(r"::|\[", name)[0]
        assert function in functions, f"{key}: there is no {test}"
        assert "[" in name or not functions[function], f"{key}: {test} has several cases, say which"


@pytest.mark.exhaustive("runs one test for each option; the table itself is checked by default")
@pytest.mark.budget(600)
@pytest.mark.parametrize("connector", CONNECTORS)
def test_those_tests_fail_without_the_option(connector):
    command = ["scripts/options", connector, "--verify"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
