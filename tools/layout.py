"""The plan of a connector package: which role is in which file, under which name, and who may import whom.

``problems(package)`` reads the source of a package (a folder ``penstock_<name>``) and says what leaves the plan. The
plan is described for people in ``docs/authors/layout.md``; :data:`ROLES` and :data:`ROOMS` are the same as data.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["ROLES", "ROOMS", "Role", "problems"]


@dataclass(frozen=True)
class Role:
    """A class whose direct base is one of ``bases`` stands in ``file``; its name is the prefix and ``suffix``.

    ``suffix`` is a regular expression. The prefix is the name of the connector class without ``Connector``.
    """

    file: str
    suffix: str
    bases: tuple[str, ...]


ROLES = (
    Role("_connector.py", "Connector", ("Connector",)),
    Role("_lookup.py", "Lookup", ("TableLookup",)),
    Role("source/_source.py", "Source", ("Source", "LogSource", "SimpleSource")),
    Role("source/_enumerator.py", "SplitEnumerator", ("SplitEnumerator",)),
    Role("source/_enumerator.py", "LogClient", ("LogClient",)),
    Role("source/_reader.py", "SplitReader", ("SplitReader",)),
    Role("source/_emitter.py", "RecordEmitter", ("RecordEmitter",)),
    Role("sink/_sink.py", "AtLeastOnceSink", ("Sink",)),
    Role("sink/_sink.py", "TransactionalSink", ("TwoPhaseCommitSink",)),
    Role("sink/_sink.py", "UpsertSink", ("IdempotentSink",)),
    Role("sink/_sink.py", "WriteAheadSink", ("WriteAheadSink",)),
    Role("sink/_writer.py", r"(\w*)Writer", ("SinkWriter",)),
    Role("sink/_writer.py", "Sender", ("Sender",)),
    Role("sink/_committer.py", r"(\w*)Committer", ("Committer", "CheckpointCommitter")),
    Role("dev/_server.py", "DevServer", ("DevServer",)),
)
#: The rooms every connector may have, and those that only one needs, with the reason.
ROOMS = ("source", "sink", "client", "options", "dev")
EXTRA_ROOMS = {
    "penstock_kafka": {
        "config": "settings in the Java client's names, translated for each client",
        "transactions": "names, slots and producers of Kafka's transactions",
    },
    "penstock_cassandra": {
        "types": "CQL types as Arrow's",
        "native": "the compiled cells",
    },
    "penstock_filesystem": {"formats": "what a file's format reads and writes"},
}
#: Which constants are where: what is stored has its versioned form beside what it stores.
SERIALIZERS = {
    "SPLIT_SERIALIZER": "source/_split.py",
    "STATE_SERIALIZER": "source/_split.py",
    "COMMITTABLE_SERIALIZER": "sink/_committable.py",
    "WRITER_STATE_SERIALIZER": "sink/_committable.py",
    "SCHEMA_SERIALIZER": "source/_schema_location.py",
}
#: The systems' own libraries: only these rooms may import them.
_DRIVERS = ("confluent_kafka", "kafka", "cassandra", "pravega", "pravega_client", "psycopg")
_DRIVER_ROOMS = ("client", "dev")


@dataclass
class _Module:
    path: Path
    name: str
    tree: ast.Module
    imports: Sequence[str]
    loggers: Sequence[tuple[ast.expr, ast.Call]]

    @classmethod
    def read(cls, path: Path, package: Path) -> _Module:
        relative = path.relative_to(package.parent).with_suffix("")
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        return cls(path, ".".join(parts), *_parsed(path.read_text("utf-8")))

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))


@lru_cache(maxsize=128)  # of one package: tests change a file of it and look at all again
def _parsed(text: str) -> tuple[ast.Module, Sequence[str], Sequence[tuple[ast.expr, ast.Call]]]:
    """The tree of a module, what it imports, and where it makes loggers."""
    tree = ast.parse(text)
    imports: list[str] = []
    loggers: list[tuple[ast.expr, ast.Call]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            loggers += [(node.targets[0], node.value)] * (_name(node.value.func) in ("getLogger", "get_logger"))
    return tree, imports, loggers


def problems(package: Path) -> list[str]:
    """What leaves the plan, a line each: the file, what is wrong, and where it belongs."""
    modules = {
        path.relative_to(package).as_posix(): _Module.read(path, package) for path in sorted(package.rglob("*.py"))
    }
    prefix = _prefix(modules)
    if prefix is None:
        return ["_connector.py: it must define the package's one class <Name>Connector"]
    found: list[str] = []
    for check in (_names, _rooms):
        found += check(package, modules)
    for place, module in modules.items():
        found += _roles(place, module, prefix)
        found += _serializers(place, module)
        found += _imports(place, module, package.name)
        found += _logger(place, module, package.name)
    return [*found, *_faces(modules, prefix)]


def _prefix(modules: dict[str, _Module]) -> str | None:
    if "_connector.py" not in modules:
        return None
    names = [node.name for node in modules["_connector.py"].classes if node.name.endswith("Connector")]
    return names[0].removesuffix("Connector") if len(names) == 1 else None


def _names(package: Path, modules: dict[str, _Module]) -> Iterator[str]:
    for place in modules:
        name = Path(place).name
        if not name.startswith("_"):
            yield f"{place}: modules are private, faces are __init__.py: rename it to _{name}"


def _rooms(package: Path, modules: dict[str, _Module]) -> Iterator[str]:
    allowed = {*ROOMS, *EXTRA_ROOMS.get(package.name, ())}
    for room in sorted({Path(place).parts[0] for place in modules if "/" in place} - allowed):
        yield f"{room}/: not in the plan; the rooms are {', '.join(sorted(allowed))}"


def _roles(place: str, module: _Module, prefix: str) -> Iterator[str]:
    for node in module.classes:
        bases = {_name(base) for base in node.bases}
        for role in ROLES:
            if not bases & set(role.bases):
                continue
            if place != role.file:
                yield f"{place}: {node.name} belongs in {role.file}"
            if not re.fullmatch(role.suffix if role.file == "_lookup.py" else prefix + role.suffix, node.name):
                yield f"{place}: {node.name} should be named {prefix}{role.suffix.replace(chr(92) + 'w*', '…')}"


def _name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        return _name(base.value)
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def _serializers(place: str, module: _Module) -> Iterator[str]:
    for node in module.tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and target.id.endswith("_SERIALIZER"):
                if target.id not in SERIALIZERS:
                    yield f"{place}: {target.id} should be one of {', '.join(SERIALIZERS)}"
                elif SERIALIZERS[target.id] != place:
                    yield f"{place}: {target.id} belongs in {SERIALIZERS[target.id]}"


def private_imports(package: Path) -> list[str]:
    """Imports of modules that are private to another folder, a line each."""
    modules = [_Module.read(path, package) for path in sorted(package.rglob("*.py"))]
    owners = [(module, name, _private_to(name, module.name)) for module in modules for name in module.imports]
    return [f"{module.name}: {name} is private to {owner}" for module, name, owner in owners if owner]


def _private_to(name: str, importer: str) -> str:
    """The package that a private module belongs to, if ``importer`` is not in it; else nothing."""
    parts = name.split(".")
    if not parts[0].startswith("penstock"):
        return ""
    private = (index for index, part in enumerate(parts) if part.startswith("_") and part.islower())
    owner = ".".join(parts[: next(private, 0)])
    return owner if owner and not f"{importer}.".startswith(f"{owner}.") else ""


def _imports(place: str, module: _Module, package: str) -> Iterator[str]:
    room = place.partition("/")[0] if "/" in place else ""
    for name in module.imports:
        parts = name.split(".")
        if owner := _private_to(name, module.name):
            yield f"{place}: {name} is private to {owner}"
        if parts[0] == package and len(parts) > 1 and (room, parts[1]) in (("source", "sink"), ("sink", "source")):
            yield f"{place}: a {room} does not import the {parts[1]} ({name}): move what both need"
        if room == "client" and parts[0] == package and parts[1:2] and parts[1] in ("source", "sink", "options"):
            yield f"{place}: the client does not know the {parts[1]} ({name})"
        if parts[0] in _DRIVERS and room not in _DRIVER_ROOMS:
            yield f"{place}: {parts[0]} is imported in {' and '.join(_DRIVER_ROOMS)} only"


def _logger(place: str, module: _Module, package: str) -> Iterator[str]:
    expected = package.replace("_", ".", 1)
    for target, call in module.loggers:
        given = call.args[0] if call.args else None
        named = isinstance(given, ast.Constant) and given.value == expected
        ours = _name(call.func) == "get_logger" and isinstance(target, ast.Name) and target.id == "_log"
        if not (named and ours):
            yield f'{place}: the logger is _log = get_logger("{expected}")'


def _faces(modules: dict[str, _Module], prefix: str) -> Iterator[str]:
    """The rooms have the files and the names that whoever knows another connector looks for."""
    yield from _exports(modules, "__init__.py", [f"{prefix}Connector"])
    options = "_options.py" if "_options.py" in modules else "options/__init__.py"
    if "source/__init__.py" in modules:
        yield from _exports(modules, options, ["SOURCE_OPTIONS", "SourceOptions"])
        yield from _exports(modules, "source/__init__.py", [f"{prefix}Source"])
        source = modules.get("source/_source.py")
        bases = {_name(base) for node in source.classes for base in node.bases} if source else set()
        if "Source" in bases:  # a template brings its own enumerator, reader and splits
            for file in ("_enumerator.py", "_reader.py", "_emitter.py", "_split.py"):
                if f"source/{file}" not in modules:
                    yield f"source/{file}: missing"
    if "sink/__init__.py" in modules:
        yield from _exports(modules, options, ["SINK_OPTIONS", "SinkOptions"])
        yield from _exports(modules, "sink/__init__.py", ["create_sink"])
        yield from _exports(modules, "sink/_sink.py", [])
        if "sink/_sink.py" in modules and any(
            _name(base) == "TwoPhaseCommitSink" for node in modules["sink/_sink.py"].classes for base in node.bases
        ):
            for file in ("_writer.py", "_committer.py", "_committable.py"):
                if f"sink/{file}" not in modules:
                    yield f"sink/{file}: missing"


def _exports(modules: dict[str, _Module], place: str, names: list[str]) -> Iterator[str]:
    if place not in modules:
        yield f"{place}: missing"
        return
    tree = modules[place].tree
    bound = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    bound |= {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    bound |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for name in names:
        if name not in bound:
            yield f"{place}: it must offer {name}"


if __name__ == "__main__":
    lines = [f"{folder}/{line}" for folder in sys.argv[1:] for line in problems(Path(folder))]
    print("\n".join(lines))
    sys.exit(bool(lines))
