"""The check of the public API, on small packages of which one thing changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from public_api.checking import Workspace

ROOT = Path(__file__).parents[2]
SHAPES = '''
    """Shapes."""

    from abc import ABC, abstractmethod
    from dataclasses import dataclass

    __all__ = ["SIDES", "Shape", "Square", "area"]

    #: How many.
    SIDES = 4


    class _Named:
        def name(self) -> str:
            """Its name."""
            return ""


    class Shape(_Named, ABC):
        """A shape."""

        @abstractmethod
        def size(self, unit: str, *, digits: int = 2) -> float:
            """How large it is."""

        @property
        def sides(self) -> int:
            """How many."""
            return SIDES


    @dataclass(frozen=True)
    class Square(Shape):
        """A square."""

        length: float

        def size(self, unit: str, *, digits: int = 2) -> float:
            return self.length


    def area(shape: Shape, factor: float = 1.0) -> float:
        """The area."""
        return factor


    def _hidden(anything):
        return anything
'''


class Project:
    """A workspace with one package, ``penstock``, whose module ``shapes`` may be edited."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.module = root / "core" / "src" / "penstock" / "shapes.py"
        self.module.parent.mkdir(parents=True)
        (root / "changelog.d").mkdir()
        (self.module.parent / "__init__.py").write_text(
            '"""A package."""\n\n__all__ = ["NAME"]\n\n#: Of the package.\nNAME = "shapes"\n'
        )
        self.module.write_text(dedent(SHAPES).lstrip())

    def edit(self, old: str, new: str) -> None:
        text = self.module.read_text()
        assert old in text
        self.module.write_text(text.replace(old, new))

    def announce(self, kind: str, text: str, package: str = "penstock") -> None:
        (self.root / "changelog.d" / f"{package}.it.{kind}.md").write_text(text)

    def problems(self, *, update: bool = True) -> str:
        workspace = Workspace(self.root)
        if update:
            workspace.update()
        return "\n".join(workspace.problems())

    def listing(self) -> list[str]:
        return (self.root / "docs" / "api" / "penstock.txt").read_text().splitlines()[1:]


@pytest.fixture
def project(tmp_path):
    """Released as it is."""
    made = Project(tmp_path)
    workspace = Workspace(tmp_path)
    workspace.update()
    workspace.release("penstock")
    assert workspace.problems() == []
    return made


def test_the_listing_has_a_line_for_each_name_that_a_base_does_not_have(project):
    assert project.listing() == [
        "penstock: module",
        "penstock.NAME: data = 'shapes'",
        "penstock.shapes: module",
        "penstock.shapes.SIDES: data = 4",
        "penstock.shapes.Shape: class(_Named, ABC)",
        "penstock.shapes.Shape.name: def() -> str",
        "penstock.shapes.Shape.sides: property -> int",
        "penstock.shapes.Shape.size: abstract def(unit: str, *, digits: int = 2) -> float",
        "penstock.shapes.Square: class(Shape)",
        "penstock.shapes.Square.__init__: def(length: float) -> None",
        "penstock.shapes.Square.length: data: float",
        "penstock.shapes.area: def(shape: Shape, factor: float = 1.0) -> float",
    ]


def test_a_listing_that_was_not_renewed(project):
    project.edit("factor: float = 1.0", "factor: float = 1.0, power: int = 2")
    project.announce("added", "More.")
    told = project.problems(update=False)
    assert "docs/api/penstock.txt is not what the code offers" in told and "scripts/api --update" in told
    assert "+penstock.shapes.area: def(shape: Shape, factor: float = 1.0, power: int = 2) -> float" in told
    assert project.problems(update=True) == ""


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ('"Square", "area"]', '"Square"]', "penstock.shapes.area", "removed"),
        ("factor: float = 1.0", "scale: float = 1.0", "penstock.shapes.area", "removed ('factor')"),
        ("shape: Shape, factor: float = 1.0", "shape: Shape", "penstock.shapes.area", "removed ('factor')"),
        ("shape: Shape, factor", "shape: Shape, unit: str, factor", "penstock.shapes.area", "required ('unit')"),
        ("factor: float = 1.0", "factor: float = 2.0", "penstock.shapes.area", "default was changed ('factor')"),
        ("shape: Shape, factor", "shape: Shape, *, factor", "penstock.shapes.area", "kind was changed ('factor')"),
        ("(shape: Shape, factor: float = 1.0)", "(factor: float, shape: Shape)", "penstock.shapes.area", "was moved"),
        ("def area", "async def area", "penstock.shapes.area", "is async def"),
        ("def name", "def title", "penstock.shapes.Shape.name", "removed"),
        ("    @property\n", "", "penstock.shapes.Shape.sides", "different kind"),
        ("    @property\n", "    @property\n    @abstractmethod\n", "penstock.shapes.Shape.sides", "must write it now"),
        ("Shape(_Named, ABC)", "Shape(_Named)", "penstock.shapes.Shape", "base class was removed"),
        ("    length: float", "    length: float\n    width: float", "penstock.shapes.Square.__init__", "('width')"),
    ],
)
def test_what_breaks_code_must_be_announced_by_name(project, old, new, path, words):
    project.edit(old, new)
    told = project.problems()
    assert f"{path}: " in told and words in told and ".changed.md (or .removed.md)" in told
    project.announce("added", f"`{path.rpartition('.')[2]}` is better.")
    assert words in project.problems()
    project.announce("changed", "Something else: `other`, and area and sides.")
    assert words in project.problems(), "it does not name it"
    project.announce("changed", f"`{path}` is other than it was.")
    assert words not in project.problems()


def test_a_method_may_move_to_a_base_class(project):
    size = """    def size(self, unit: str, *, digits: int = 2) -> float:
        return self.length
"""
    project.edit(size, "    pass\n")
    project.edit("    @abstractmethod\n    def size", "    def size")
    told = project.problems()
    assert "Square.size" not in told and "Shape.size: was abstract" in told


def test_what_is_gone_takes_what_was_in_it_along(project):
    project.edit('"Square", "area"]', '"area"]')
    assert project.problems().count("Square") == 2, "one line: what, and what to write"


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("factor: float = 1.0)", "factor: float = 1.0, *, power: int = 2)", "penstock.shapes.area"),
        ('-> float:\n    """The area', '-> float | None:\n    """The area', "penstock.shapes.area"),
        ("SIDES = 4", "SIDES = 5", "penstock.shapes.SIDES"),
        ("SIDES = 4", "SIDES = 4\n#: New.\nCORNERS = 4", "penstock.shapes.CORNERS"),
        (
            "def _hidden(anything)",
            'def show() -> None:\n    """New."""\n\n\ndef _hidden(anything)',
            "penstock.shapes.show",
        ),
    ],
)
def test_what_is_added_must_be_announced(project, old, new, path):
    project.edit(old, new)
    name = path.rpartition(".")[2]
    project.edit('["SIDES"', f'["{name}", "SIDES"' if name in ("CORNERS", "show") else '["SIDES"')
    assert f"{path}: " in project.problems() and ".added.md" in project.problems()
    project.announce("fixed", "It works.")
    project.announce("added", "Something.", package="penstock-kafka")
    assert f"{path}: " in project.problems()
    project.announce("added", "More can be done.")
    assert project.problems() == ""


def test_what_is_not_public_may_change(project):
    project.edit("def _hidden(anything):\n    return anything\n", "")
    assert project.problems(update=False) == ""


def test_a_thing_that_moves_and_keeps_its_old_name(project):
    code = project.module.read_text()
    project.module.with_name("forms.py").write_text(code)
    project.module.write_text(
        '"""Shapes, once."""\n\nfrom penstock.forms import SIDES, Shape, Square, area\n\n'
        '__all__ = ["SIDES", "Shape", "Square", "area"]\n'
    )
    assert ".changed.md" not in project.problems().replace("(or .changed.md)", "")
    project.announce("added", "`penstock.forms`.")
    assert project.problems() == ""
    assert "penstock.shapes.area: same as penstock.forms.area" in project.listing()


def test_a_public_name_has_one_home(project):
    package = project.module.with_name("__init__.py")
    package.write_text('"""A package."""\n\nfrom penstock.shapes import Shape\n\n__all__ = ["Shape"]\n')
    project.announce("changed", "`NAME` is gone.")
    assert project.problems().startswith("penstock.Shape: is same as penstock.shapes.Shape: a public name has one home")


def test_a_release_moves_what_is_compared_with(project):
    project.edit('"Square", "area"]', '"Square"]')
    assert "removed" in project.problems()
    Workspace(project.root).release("penstock")
    assert project.problems() == ""
    with pytest.raises(LookupError, match="no package"):
        Workspace(project.root).release("penstock-none")


def test_before_the_first_release_everything_is_new(tmp_path):
    project = Project(tmp_path)
    assert "penstock.shapes.area: is new" in project.problems()
    project.announce("added", "All of it.")
    assert project.problems() == ""


@pytest.mark.parametrize(
    ("old", "path"),
    [
        ('    """The area."""\n', "penstock.shapes.area"),
        ('    """A square."""\n', "penstock.shapes.Square"),
        ('"""Shapes."""\n', "penstock.shapes"),
        ("#: How many.\n", "penstock.shapes.SIDES"),
        ('        """How many."""\n', "penstock.shapes.Shape.sides"),
    ],
)
def test_what_is_public_is_documented(project, old, path):
    project.edit(old, "")
    assert f"{path}: " in project.problems() and " has no " in project.problems()


def test_what_all_promises_must_be_there(project):
    project.edit('["SIDES"', '["CORNERS", "SIDES"')
    with pytest.raises(LookupError, match=r"penstock\.shapes: CORNERS: in __all__"):
        project.problems()


def test_everything_that_connectors_and_examples_import_is_public():
    """The listing is what third parties rely on: so do ours."""
    import ast

    listed: set[str] = set()
    for path in (ROOT / "docs" / "api").glob("*.txt"):
        listed |= {line.split(": ")[0] for line in path.read_text().splitlines()}
    sources = [p for folder in ("connectors", "examples") for p in (ROOT / folder).glob("*/src/**/*.py")]
    samples = sorted((ROOT / "core/src/penstock/testing/_samples").glob("*/**/*.py"))
    assert len(sources) > 50 and len(samples) > 20
    sources += samples
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.split(".")[0] == "penstock" and not module.startswith("penstock.testing._samples."):
                for alias in node.names:
                    assert f"{node.module}.{alias.name}" in listed, f"{path.relative_to(ROOT)}: {alias.name}"


def test_the_command(project):
    """Of the repository itself: what scripts/check runs."""
    command = [sys.executable, "-m", "public_api"]
    done = subprocess.run(command, cwd=ROOT / "tools", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
