"""A fault point that names what is not there is found when tests are collected."""

from __future__ import annotations

import ast
from types import ModuleType

import pytest

from suite import fault_points

RIGHT = "penstock.storage._local:LocalStorage.put"


@pytest.mark.parametrize(
    ("point", "says"),
    [
        (RIGHT, ""),
        ("penstock.storage._local:LocalStorage", ""),
        ("penstock.sink:IdempotentSink.start", ""),  # inherited
        ("penstock.storage._locale:LocalStorage.put", "No module named"),
        ("penstock.storage._local:LocalStore.put", "penstock.storage._local has no LocalStore"),
        ("penstock.storage._local:LocalStorage.putt", "LocalStorage has no putt"),
    ],
)
def test_a_point_exists_or_not(point, says):
    found = fault_points.problem_of(point)
    assert says in found and bool(found) == bool(says)


@pytest.mark.parametrize(
    ("source", "parameters"),
    [
        ('WRITER = "penstock.storage._local:Gone"', []),
        (
            'POINTS = [f"penstock.storage._local:{name}.put:after:1" for name in ("LocalStorage", "Gone")]',
            [],
        ),
        (
            'BY_NAME = {"a": ("penstock.system:System;penstock.storage._local:Gone.put:after:2",)}',
            [],
        ),
        ('def test_it(driver):\n    driver("job", fault="penstock.storage._local:Gone.put:before:1")', []),
        ("", ["penstock.storage._local:Gone.put:half:1:~/staged/"]),
        ("", [{"fault": ["penstock.storage._local:Gone.put:half:1"]}]),
    ],
)
def test_wherever_a_test_module_has_them(tmp_path, source, parameters):
    path = tmp_path / "test_it.py"
    for text, wrong in ((source, True), (source.replace("Gone", "LocalStorage"), False)):
        path.write_text(text)
        module = ModuleType("test_it")
        module.__file__ = str(path)
        exec(text, vars(module))
        given = parameters if wrong else ast.literal_eval(repr(parameters).replace("Gone", "LocalStorage"))
        assert bool(fault_points.unresolved(module, given)) == wrong


def test_other_strings_are_left_alone(tmp_path):
    path = tmp_path / "test_it.py"
    path.write_text(
        '"""penstock.storage: a page."""\nA = "penstock_kafka"\nB = "see penstock.x:Y.z"\nC = "penstock:"\n'
    )
    module = ModuleType("test_it")
    module.__file__ = str(path)
    assert fault_points.unresolved(module, [1, None, b"penstock.x:Y.z"]) == []
