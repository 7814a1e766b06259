"""``penstock new``: a package to begin a connector from, which is installable and passes the conformance kit at once.

Its code is that of the kit's own small connectors (``penstock.testing._samples``) under the new name, so what it writes
is what the kit's tests prove.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Literal

from penstock._plugins import installed_connectors
from penstock._version import __version__
from penstock.cli import _new_texts as texts
from penstock.cli._screen import Screen, as_text
from penstock.errors import BadConfigurationError

if TYPE_CHECKING:
    from importlib.abc import Traversable

__all__ = ["Kind", "new_connector"]

Kind = Literal["source", "sink", "database", "connector"]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
#: What the names of a sample's classes begin with.
_PREFIXES = {"connector": "Minimal", "sink": "Files", "database": "Bank", "source": "Lines"}


def new_connector(kind: Kind, name: str, directory: Path) -> int:
    """Writes ``penstock-<name>`` below ``directory``. Raises BadConfigurationError for a bad name or what is there."""
    if not _NAME.fullmatch(name):
        raise BadConfigurationError(f"'{name}' is not a name for a connector: write small letters, digits and '-'")
    if name.startswith("penstock-"):
        raise BadConfigurationError(f"'penstock-' is put before the name: write '{name.removeprefix('penstock-')}'")
    if any(one.name == name for one in installed_connectors()):
        raise BadConfigurationError(
            f"a connector 'penstock.{name}' is installed, and two of a name can't be together: choose another name"
        )
    project = directory / f"penstock-{name}"
    if project.exists():
        raise BadConfigurationError(f"{project} is there already")
    made = _files(kind, name)
    if clashes := sorted({clash for text in _sources(made) for clash in _defined_and_imported(text)}):
        raise BadConfigurationError(f"'{name}' would name a class {clashes[0]}, as Penstock does: choose another name")
    for path, text in made.items():
        target = project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    console = Screen()
    console.print(f'[green]✓[/] {as_text(str(project))}: [bold].format("penstock.{name}")[/]')
    for path in sorted(made):
        console.print(f"  [dim]{path}[/]")
    console.print(f"\nNext:\n  cd {project}\n  pip install -e '.[test]' && pytest", soft_wrap=True, markup=False)
    return 0


def _sources(made: dict[str, str]) -> Iterator[str]:
    return (text for path, text in made.items() if path.endswith(".py"))


def _defined_and_imported(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported & {node.name for node in nodes if isinstance(node, ast.ClassDef)}


def _files(kind: Kind, name: str) -> dict[str, str]:
    module, prefix = f"penstock_{name.replace('-', '_')}", "".join(part.capitalize() for part in name.split("-"))
    major, minor = __version__.split(".")[:2]
    words = {
        "name": name,
        "module": module,
        "prefix": prefix,
        "core": f"penstock>={major}.{minor},<{major}.{int(minor) + 1}",
    }

    def fill(text: str) -> str:
        return Template(text).substitute(words)

    return {
        "pyproject.toml": fill(texts.PYPROJECT),
        "README.md": fill(texts.README),
        ".github/workflows/test.yml": texts.WORKFLOW,
        "tests/test_conformance.py": fill(texts.TESTS[kind]),
        **{f"src/{module}/{path}": text for path, text in _renamed(kind, module, prefix).items()},
    }


def _renamed(kind: Kind, module: str, prefix: str) -> dict[str, str]:
    """Returns the sample's files, with the new name of the package and in its classes."""
    # By the folder: importing it would need pytest, which only those who test a connector have.
    sample = files("penstock") / "testing" / "_samples" / kind
    return {
        path: re.sub(rf"\b{_PREFIXES[kind]}(?=[A-Z])", prefix, text)
        .replace(f"penstock.testing._samples.{kind}", module)
        .replace("The smallest connector that passes the kit", "A small connector")
        for path, text in _texts(sample)
    }


def _texts(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _texts(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield above + entry.name, entry.read_text("utf-8")
