"""Schemas of Protobuf: files of descriptors, from the compiler or from a registry."""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from penstock.errors import BadConfigurationError
from penstock.serialization._malformed import shortened
from penstock.serialization.formats._schemas import SchemaLanguage

__all__ = ["ProtobufLanguage", "ProtobufSchema", "load_descriptor_file"]

#: Files that come with packages: by what their path begins with, the package that has them.
_KNOWN = {
    "google/protobuf/": "",
    "google/type/": "",
    "confluent/": "confluent_kafka.schema_registry.",
}
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_COMPILER_SECONDS = 60


@dataclass(frozen=True)
class ProtobufSchema:
    """``files`` are serialized descriptors, each after those that it imports. The last one is the schema. Pickled."""

    files: tuple[bytes, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}

    @cached_property
    def pool(self) -> DescriptorPool:
        """Everything that the files define."""
        pool = DescriptorPool()
        for one in self.files:
            pool.AddSerializedFile(one)
        return pool

    @cached_property
    def _main(self) -> FileDescriptorProto:
        return FileDescriptorProto.FromString(self.files[-1])

    def file(self) -> Any:
        """Returns the descriptor of the last file."""
        return self.pool.FindFileByName(self._main.name)

    def message(self, name: str) -> Any:
        """Returns the descriptor of a message by its full name. Raises BadConfigurationError with those there are."""
        try:
            return self.pool.FindMessageTypeByName(name)
        except KeyError:
            there = ", ".join(_names(self.file().message_types_by_name.values())) or "none"
            raise BadConfigurationError(
                f"option 'message': the Protobuf schema has no message '{name}'; it has {shortened(there)}"
            ) from None

    def at(self, indexes: Sequence[int]) -> Any:
        """Returns the message of the last file that is at ``indexes``: of its messages, of that one's, and so on.

        Raises IndexError.
        """
        part: Any = self._main
        names = [part.package] if part.package else []
        for depth, index in enumerate(indexes):
            if index < 0:
                raise IndexError(index)
            part = (part.nested_type if depth else part.message_type)[index]
            names.append(part.name)
        return self.message(".".join(names))

    def indexes(self, message: Any) -> list[int]:
        """Returns where the message is, as :meth:`at` takes it."""
        outer = message.containing_type
        if outer is None:
            return [list(self.file().message_types_by_name).index(message.name)]
        return [*self.indexes(outer), list(outer.nested_types_by_name).index(message.name)]

    def of_message(self, message: Any) -> ProtobufSchema:
        """Returns the same with the file last that defines ``message``, and only what it imports."""
        by_name = {FileDescriptorProto.FromString(one).name: one for one in self.files}
        return ProtobufSchema(tuple(by_name[name] for name in _in_order([message.file.name], _imports(by_name))))

    def imports(self, name: str) -> list[str]:
        """Returns what the file ``name`` imports, except for the files that come with packages."""
        return [one.name for one in self.pool.FindFileByName(name).dependencies if not _is_known(one.name)]

    def text(self, name: str) -> str:
        """Returns the file ``name`` as registries take it: in base 64."""
        return base64.b64encode(self.pool.FindFileByName(name).serialized_pb).decode()


def load_descriptor_file(path: str) -> ProtobufSchema:
    """Returns what ``protoc --descriptor_set_out`` wrote. Raises BadConfigurationError."""
    try:
        found = FileDescriptorSet.FromString(Path(path).read_bytes())
    except OSError as error:
        raise BadConfigurationError(f"option 'descriptorFile': can't be read: {error}") from None
    except DecodeError:
        found = FileDescriptorSet()
    if not found.file:
        raise BadConfigurationError(
            f"option 'descriptorFile': {path} is not what protoc --include_imports --descriptor_set_out=… writes"
        )
    return _schema(found.file, [one.name for one in found.file], f"option 'descriptorFile': {path}")


class ProtobufLanguage(SchemaLanguage[ProtobufSchema]):
    """Protobuf in a registry: descriptors in base 64, or source text, which needs a compiler."""

    name = "PROTOBUF"
    label = "Protobuf"
    form = "serialized"

    def reads(self, text: str) -> bool:
        return _decoded(text) is not None

    def load(self, text: str, references: Sequence[tuple[str, str]]) -> ProtobufSchema:
        texts = {**dict(references), "": text}
        files = {name: _descriptor(name or "schema.proto", one) for name, one in texts.items()}
        if any(one is None for one in files.values()):
            return _compiled(texts)
        found = [one for one in files.values() if one is not None]
        return _schema(found, [found[-1].name], "the schema")


def _descriptor(name: str, text: str) -> FileDescriptorProto | None:
    """Returns the descriptor, by that name; ``None`` for source text."""
    data = _decoded(text)
    if data is None:
        return None
    found = FileDescriptorProto.FromString(data)
    found.name = name
    return found


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _compiled(texts: Mapping[str, str]) -> ProtobufSchema:
    """Returns the schema of source texts, the last of which is the schema, by the compiler of grpcio-tools."""
    with tempfile.TemporaryDirectory() as work:
        main = "schema.proto"
        for name, text in texts.items():
            if not _PATH.fullmatch(name or main):
                raise BadConfigurationError(f"it imports {shortened(name)!r}, which is not a path of a .proto file")
            path = Path(work, "in", name or main)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        out = Path(work, "out")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{work}/in", "--include_imports"]
        ended = subprocess.run(
            [*command, f"--descriptor_set_out={out}", main], capture_output=True, text=True, timeout=_COMPILER_SECONDS
        )
        if ended.returncode and "No module named" in ended.stderr:
            raise BadConfigurationError(
                "it is source text, which needs a compiler: pip install grpcio-tools, or set 'descriptorFile'"
            )
        if ended.returncode:
            raise BadConfigurationError(f"it does not compile: {shortened(ended.stderr.strip())}")
        files = FileDescriptorSet.FromString(out.read_bytes()).file
    return _schema(files, [main], "the schema")


def _schema(files: Iterable[FileDescriptorProto], last: Sequence[str], where: str) -> ProtobufSchema:
    """Returns the files that ``last`` need, with those of packages. Raises BadConfigurationError."""
    by_name = {one.name: one.SerializeToString() for one in files}
    waiting = [name for one in files for name in one.dependency]
    while waiting:
        name = waiting.pop()
        if name not in by_name:
            found = _known_file(name)
            if found is None:
                raise BadConfigurationError(
                    f"{where} imports {shortened(name)}, which is not there: write it with protoc --include_imports"
                )
            by_name[name] = found
            waiting += FileDescriptorProto.FromString(found).dependency
    schema = ProtobufSchema(tuple(by_name[name] for name in _in_order(last, _imports(by_name))))
    try:
        schema.file()
    except (TypeError, KeyError) as error:  # the pool does not say more
        raise BadConfigurationError(f"{where} is not a whole schema: {shortened(str(error))}") from None
    return schema


def _imports(files: Mapping[str, bytes]) -> dict[str, list[str]]:
    return {name: list(FileDescriptorProto.FromString(one).dependency) for name, one in files.items()}


def _in_order(last: Sequence[str], imports: Mapping[str, list[str]]) -> list[str]:
    """Returns the names that ``last`` need, each after what it imports, ``last`` itself as late as can be."""
    found: list[str] = []
    waiting = [(name, False) for name in reversed(last)]
    entered: set[str] = set()
    while waiting:
        name, is_done = waiting.pop()
        if is_done:
            found.append(name)
        elif name not in entered:
            entered.add(name)
            waiting.append((name, True))
            waiting += [(one, False) for one in imports[name]]
    return found


def _is_known(name: str) -> bool:
    return any(name.startswith(prefix) for prefix in _KNOWN)


def _known_file(name: str) -> bytes | None:
    """Returns a file that comes with a package."""
    package = next((one for prefix, one in _KNOWN.items() if name.startswith(prefix)), None)
    if package is None or not _PATH.fullmatch(name) or not name.endswith(".proto"):
        return None
    try:
        module = importlib.import_module(package + name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return bytes(module.DESCRIPTOR.serialized_pb)


def _names(messages: Iterable[Any]) -> list[str]:
    return [name for one in messages for name in (one.full_name, *_names(one.nested_types))]
