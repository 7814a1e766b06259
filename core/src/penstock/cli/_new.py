"""``penstock new``: a package to begin a connector from, which is installable and passes the conformance kit at once.

Its code is that of the kit's own small connectors (:mod:`penstock.testing._minimal`, ``_file_sink``, ``_lines_source``)
under the new name, so what is written here is what the kit's tests prove.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal

from rich.console import Console

from penstock._version import __version__
from penstock.cli import _new_texts as texts
from penstock.errors import BadConfigurationError

__all__ = ["Kind", "new_connector"]

Kind = Literal["source", "sink", "connector"]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
#: The kit's module, and what its classes' names begin with.
_MODULES = {
    "connector": ("_minimal.py", "Minimal"),
    "sink": ("_file_sink.py", "File"),
    "source": ("_lines_source.py", "Lines"),
}


def new_connector(kind: Kind, name: str, directory: Path) -> int:
    """Writes ``penstock-<name>`` below ``directory``. Raises BadConfigurationError for a bad name or what is there."""
    if not _NAME.fullmatch(name):
        raise BadConfigurationError(f"'{name}' is no name for a connector: write small letters, digits and '-'")
    project = directory / f"penstock-{name}"
    if project.exists():
        raise BadConfigurationError(f"{project} is there already")
    made = _files(kind, name)
    for path, text in made.items():
        target = project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    console = Console(highlight=False)
    console.print(f'[green]✓[/] {project}: [bold].format("penstock.{name}")[/]')
    for path in sorted(made):
        console.print(f"  [dim]{path}[/]")
    console.print(f"\nNext:\n  cd {project}\n  pip install -e '.[test]' && pytest", soft_wrap=True)
    return 0


def _files(kind: Kind, name: str) -> dict[str, str]:
    module, prefix = f"penstock_{name.replace('-', '_')}", "".join(part.capitalize() for part in name.split("-"))
    major, minor = __version__.split(".")[:2]
    words = {
        "name": name,
        "module": module,
        "prefix": prefix,
        "core": f"penstock>={major}.{minor},<{major}.{int(minor) + 1}",
        "home": kind,
    }

    def fill(text: str) -> str:
        return Template(text).substitute(words)

    return {
        "pyproject.toml": fill(texts.PYPROJECT),
        "README.md": fill(texts.README),
        ".github/workflows/test.yml": texts.WORKFLOW,
        "tests/test_conformance.py": fill(texts.TESTS[kind]),
        f"src/{module}/__init__.py": fill(texts.INIT),
        f"src/{module}/{kind}.py": _renamed(kind, prefix),
    }


def _renamed(kind: Kind, prefix: str) -> str:
    """The kit's module with the new name in its classes."""
    file, old = _MODULES[kind]
    text = (files("penstock.testing") / file).read_text("utf-8")
    text = re.sub(rf"\b{old}(Sink)?Connector\b", f"{prefix}Connector", text)
    text = re.sub(rf"\b{old}(?=[A-Z])(?!\w*Error\b)", prefix, text)  # not Python's FileNotFoundError
    return text.replace("The smallest connector that passes the kit", "A small connector").replace(
        ", to begin from", ""
    )
