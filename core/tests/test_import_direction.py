"""One direction of imports: connector → contracts ← penstock.spark; nobody but penstock.spark knows PySpark."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "penstock"
CONNECTORS = sorted(path.parents[2].name for path in (ROOT / "connectors").glob("*/src/*/__init__.py"))
#: What a package of the core may import of the core; the modules right below penstock are "contracts" here.
ALLOWED = {
    "system": set(),
    "printable": set(),
    "_error_book": set(),
    "error_codes": {"_error_book"},
    "errors": {"_error_book", "printable"},
    "reach": {"printable"},
    "_causes": {"_error_book", "error_codes", "options"},
    "metrics": set(),
    "native": {"printable"},
    "per_process": {"printable"},
    "retry": {"printable", "system", "errors", "metrics", "options"},
    "options": {"printable", "errors"},
    "_core_range": {"_version"},
    "serialization": {"_core_range", "errors", "options"},
    "tls": {"options"},
    "token_service": set(),
    "tokens": {"printable", "system", "errors", "options"},
    "storage": {"system", "error_codes", "errors", "reach", "options", "per_process", "retry"},
    "source": {"printable", "system", "dead_letters", "errors", "metrics", "options", "retry", "serialization"},
    "dead_letters": {"serialization"},
    "sink": {"system", "dead_letters", "errors", "metrics", "options", "retry", "serialization", "storage"},
    "_commit": {"printable", "system", "errors", "retry", "serialization", "sink", "storage"},
    "enrichment": {"errors", "options", "per_process", "serialization"},
    "_monitoring": {"_commit", "_version", "errors", "serialization"},
    "dev": {"errors"},
    "connector": {"dead_letters", "dev", "errors", "options", "sink", "source"},
    "_plugins": {"_core_range", "connector", "errors", "options"},
    "_letters": {"_plugins", "connector", "dead_letters", "errors", "options", "retry", "sink"},
    "checkpoint": {
        "error_codes",
        "_letters",
        "system",
        "errors",
        "options",
        "retry",
        "serialization",
        "_commit",
        "_plugins",
        "connector",
        "sink",
        "storage",
    },
}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_contracts_import_only_what_is_below_them(package):
    files = python_files(CORE / package) if (CORE / package).is_dir() else [CORE / f"{package}.py"]
    assert files
    for path in files:
        for name in imported(path):
            root, _, rest = name.partition(".")
            below = rest.split(".")[0]
            is_module = (CORE / f"{below}.py").exists() or (CORE / below).is_dir()
            if root == "penstock" and below and is_module:
                assert below in ALLOWED[package] | {package}, f"{path} imports {name}"


def at_the_top(path: Path) -> set[str]:
    """Returns the names that a module imports when it is loaded, and those that only its annotations need."""
    names: set[str] = set()
    for statement in ast.parse(path.read_text()).body:
        for node in statement.body if isinstance(statement, ast.If) else [statement]:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize(
    "folder", ["core/src", *sorted(f"connectors/{c}/src" for c in CONNECTORS), "benchmarks", "tools"]
)
def test_no_modules_import_each_other_in_a_circle(folder):
    """Imports for annotations count too: what needs each other in them can't be read one at a time."""
    root = ROOT if folder == "benchmarks" else ROOT / folder
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in python_files(ROOT / folder)
        if "site-packages" not in path.parts
    }
    waiting = {
        name: {other if other in modules else other.rpartition(".")[0] for other in at_the_top(path)} & modules.keys()
        for name, path in modules.items()
    }
    assert any(waiting.values())
    while free := [name for name, others in waiting.items() if not others & waiting.keys() - {name}]:
        for name in free:
            del waiting[name]
    while others := waiting.keys() - set().union(*waiting.values()):
        waiting = {name: needs for name, needs in waiting.items() if name not in others}
    assert not waiting, f"these import each other: {', '.join(sorted(waiting))}"


def names_spark(path: Path) -> bool:
    """Whether the file can import it, which takes longer to tell."""
    return re.search("spark|py4j", path.read_text()) is not None


def test_only_the_adapter_and_the_command_know_pyspark():
    outsiders = [p for p in python_files(CORE) if p.relative_to(CORE).parts[0] not in ("spark", "cli", "testing")]
    connectors = [p for p in python_files(ROOT / "connectors") if "tests" not in p.parts]
    assert len(outsiders) > 10 and len(connectors) > 5
    for path in filter(names_spark, outsiders + connectors):
        names = imported(path)
        assert not {n for n in names if n.split(".")[0] in ("pyspark", "py4j")}, path
        assert not {n for n in names if n.startswith("penstock.spark")} or path.name == "__init__.py", path


def test_connectors_load_without_pyspark():
    code = (
        "import importlib, sys; sys.modules['pyspark'] = None\n"
        "from penstock._plugins import installed_connectors\n"
        "loaded = [type(c.load()).__module__.partition('.')[0] for c in installed_connectors()]\n"
        "assert loaded, 'no connector is installed'\n"
        "for package in loaded:\n"
        "    for side in ('source', 'sink'):\n"
        "        if importlib.util.find_spec(f'{package}.{side}'): importlib.import_module(f'{package}.{side}')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_reads_loads_nothing_that_writes():
    """A query starts processes that only read, and waits for them."""
    code = (
        "import sys\n"
        "import penstock.spark._data_source\n"
        "some = {'penstock.sink', 'penstock.checkpoint', 'penstock.dev', 'penstock.enrichment'}\n"
        "unneeded = some & set(sys.modules)\n"
        "assert not unneeded, unneeded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
