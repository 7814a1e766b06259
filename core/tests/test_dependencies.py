"""A package asks for what it imports, also where a function does, and for numpy where Arrow's arrays become numpy's.

What is locked is what the workspace and its packages ask for.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT / "core", *sorted((ROOT / "connectors").glob("*"))]
#: What comes with another distribution, which needs it itself.
COMES_WITH = {
    "opentelemetry-sdk": "opentelemetry-api",  # they share a package
    "opentelemetry-semantic-conventions": "opentelemetry-api",
    "botocore": "boto3",
    "azure-core": "azure-identity",
    "docker": "testcontainers",
}
#: Looked for before it is imported; the message says what to install.
LOOKED_FOR = {"testcontainers"}
OF_PACKAGE = packages_distributions()
#: Several distributions share the packages ``google`` and ``azure``.
OF_SHARED = {
    **{"google.api_core": "google-api-core", "google.auth": "google-auth", "google.oauth2": "google-auth"},
    **{"google.cloud.storage": "google-cloud-storage", "google.protobuf": "protobuf"},
    **{"azure.core": "azure-core", "azure.identity": "azure-identity", "azure.storage": "azure-storage-blob"},
}
NEED_NUMPY = {"to_numpy", "__array__"}
LOCKED = tomllib.loads((ROOT / "poetry.lock").read_text())
RENEW = "poetry.lock or requirements-dev.txt does not follow what is asked for: run scripts/lock"


def asked_for(project, extras=None):
    """The distributions in its dependencies and its ``extras`` (all unless given), and those that the core brings."""
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    groups = metadata.get("optional-dependencies", {})
    lines = [
        *metadata["dependencies"],
        *(line for name in groups if extras is None or name in extras for line in groups[name]),
    ]
    found = {canonicalize_name(metadata["name"])}
    for requirement in map(Requirement, lines):
        found.add(canonicalize_name(requirement.name))
        if requirement.name == "penstock":
            found |= asked_for(PROJECTS[0], requirement.extras)
    return found


def unguarded(tree):
    """The nodes of a module but those for type checkers, and those whose failure to import is handled."""
    for node in ast.iter_child_nodes(tree):
        handled = isinstance(node, ast.Try) and any(
            "ImportError" in ast.unparse(one.type or node) for one in node.handlers
        )
        if handled or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            continue
        yield node
        yield from unguarded(node)


def needs(path):
    """The distributions, each with the line, that a module can't do without."""
    for node in unguarded(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in NEED_NUMPY:
            yield "numpy", node.lineno
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in {_package(name) for name in names} - sys.stdlib_module_names:
            found = OF_PACKAGE.get(name, [OF_SHARED.get(name, name)])
            yield canonicalize_name("numpy" if "numpy" in found else found[0]), node.lineno


def _package(module):
    return next((of for of in OF_SHARED if f"{module}.".startswith(f"{of}.")), module.partition(".")[0])


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_a_package_asks_for_what_it_imports(project):
    asked = asked_for(project) | LOOKED_FOR
    of_command = asked_for(PROJECTS[0], {"cli"})  # which alone loads a connector's part of it
    missing = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((project / "src").rglob("*.py"))
        for name, line in needs(path)
        if COMES_WITH.get(name, name) not in (asked | of_command if path.name == "_cli.py" else asked)
    ]
    assert not missing, missing


@pytest.mark.parametrize("gone", ["ReadLimit", None], ids=["a-name", "a-module"])
def test_an_older_pyspark_is_named_with_what_is_needed(gone):
    """As platforms bring it. In a process of its own, where a part of PySpark is not there."""
    hide = f"del datasource.{gone}" if gone else "sys.modules['pyspark.sql.streaming.datasource'] = None"
    code = f"""
import sys, pyspark
from pyspark.sql.streaming import datasource
{hide}
pyspark.__version__ = "4.1.1"
import penstock
try:
    penstock.register
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("penstock needs PySpark 4.2 or newer, and this is 4.1.1") and not done.stderr


def hash_of_content(workspace):
    """What Poetry 2 notes in the lock: a hash of the parts of ``pyproject.toml`` that decide what is locked."""

    def parts(table, *names):
        return {name: table[name] for name in names if name in table}

    project, poetry = workspace.get("project", {}), workspace["tool"]["poetry"]
    relevant = {
        "project": parts(project, "requires-python", "dependencies", "optional-dependencies"),
        **{name: groups for name, groups in parts(workspace, "dependency-groups").items() if groups},
        "tool": {"poetry": parts(poetry, "dependencies", "source", "extras", "dev-dependencies", "group")},
    }
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()


def test_the_lock_is_of_what_the_workspace_asks_for():
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert LOCKED["metadata"]["content-hash"] == hash_of_content(workspace), RENEW


def locked_dependencies(package):
    """The requirements in a locked package, without those that only extras have."""
    for name, noted in package.get("dependencies", {}).items():
        for one in noted if isinstance(noted, list) else [noted]:
            one = {"version": one} if isinstance(one, str) else one
            if not one.get("optional"):
                extras, markers = ",".join(one.get("extras", [])), one.get("markers", "")
                version = "" if one["version"] == "*" else one["version"]
                yield f"{name}[{extras}] {version} {markers and ';'} {markers}"


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_the_lock_is_of_what_a_package_asks_for(project):
    """The hash does not cover the packages of the workspace."""
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    [locked] = [one for one in LOCKED["package"] if one["name"] == metadata["name"]]
    asked = {"": metadata["dependencies"], **metadata.get("optional-dependencies", {})}
    found = {"": locked_dependencies(locked), **locked.get("extras", {})}
    assert {name: set(map(Requirement, lines)) for name, lines in found.items()} == {
        name: set(map(Requirement, lines)) for name, lines in asked.items()
    }, RENEW
    assert locked["python-versions"] == metadata["requires-python"], RENEW


def test_what_is_installed_for_development_is_what_is_locked():
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    required = {f"{one.name}{one.specifier}" for one in map(Requirement, lines)}
    locked = {f"{one['name']}=={one['version']}" for one in LOCKED["package"] if "source" not in one}
    assert required == locked, f"{RENEW}: {sorted(required ^ locked)}"


def test_the_lock_names_no_index_of_packages():
    """An address that one machine installs from is of no use on another."""
    sources = {one["source"]["type"] for one in LOCKED["package"] if "source" in one}
    assert sources == {"directory"}
