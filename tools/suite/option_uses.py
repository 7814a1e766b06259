"""Every use of a connector with each of its options: does the use read the option?"""

from __future__ import annotations

import contextlib
import json
import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema

from option_tests.declared import declared_uses
from penstock._letters import create_sink
from penstock._plugins import find_connector
from penstock.errors import PenstockError
from penstock.options import Mode, Option, OptionValues
from penstock.spark import _write as writing
from penstock.spark._data_source import data_source_of
from suite.option_cases import cases
from suite.option_reads import Place, differences, reads

__all__ = ["OptionUses", "Scene"]

_ROUNDS = 3


def _nothing() -> None:
    """Stands for what does not happen."""


@dataclass(frozen=True)
class Scene:
    """Options with what is real in place of what was made up, and what they are used on.

    ``schema`` is what the user gives, if anything; ``rows`` are written. ``add`` gives a source more to read, for a
    restart. ``meanwhile`` happens between planning and reading.
    """

    texts: dict[str, str]
    schema: pa.Schema | None = None
    rows: tuple[pa.RecordBatch, ...] = ()
    add: Callable[[], None] = _nothing
    meanwhile: Callable[[], None] = _nothing


class OptionUses:
    """The uses of one side of a connector, without Spark: the processes that Spark would start are this one."""

    def __init__(self, side: str, folder: Path, scene_of: Callable[[Option, dict[str, str]], Scene]) -> None:
        self._connector, _, self._side = side.partition(" ")
        self._cases = cases(side)
        self._folder = folder
        self._scene_of = scene_of
        self._made = find_connector(self._connector).load()
        self._data_source = data_source_of(self._connector, parallelism=2, accumulator=None)

    def found(self, *only: str) -> dict[str, dict[str, str]]:
        """Returns, by use and option, ``read``, or what was found instead. ``only``: of these options."""
        found: dict[str, dict[str, str]] = {}
        for use, mode, option in declared_uses(f"{self._connector} {self._side}"):
            if only and option.name not in only:
                continue
            kind, _, delivery = use.partition(", ")
            scene = self._scene_of(option, self._cases.least(option, mode))
            if delivery:
                scene = replace(scene, texts={**scene.texts, "delivery": delivery})
            found.setdefault(use, {})[option.name] = self._refusal(option, scene, mode) or self._look(
                option, kind, scene
            )
        return found

    def _refusal(self, option: Option, scene: Scene, mode: Mode) -> str:
        """Returns ``refused`` or ``warned of``, as for a user who sets the option here; ``""`` for neither."""
        problems = self._cases.declared.problems(scene.texts, owner="the options", mode=mode)
        refused = [one.message for one in problems if not one.is_warning]
        warned = [one.message for one in problems if one.is_warning]
        for said, messages in (("refused", refused), ("warned of", warned)):
            if any(f"'{option.name}'" in message for message in messages):
                return said
        return ""

    def _look(self, option: Option, use: str, scene: Scene) -> str:
        try:
            places = self._places(option, scene)
        except PenstockError as error:
            return f"not made: {error}"
        if places is None:
            return "read"
        said = ""
        with reads(places) as (found, quiet), self._quiet_while_made(quiet):
            try:
                getattr(self, "_" + use.replace(" ", "_").lower())(scene, found)
            except PenstockError as error:
                said = f", {type(error).__name__}: {error}"
        if found:
            return "read"
        names = ", ".join(sorted(f"{kind.__name__}.{name}" for kind, name in places))
        return f"nothing reads {names or 'it'}{said}".split("\n", 1)[0]

    def _places(self, option: Option, scene: Scene) -> set[Place] | None:
        """Returns where the option is seen: without it, or with another value, something else is there.

        ``None``: it decides of which class the object itself is, and so all that it does.
        """
        mine = next(name for name in scene.texts if self._cases.declared.find(name) is option)
        rest = {name: text for name, text in scene.texts.items() if name != mine and not self._depends(name, option)}
        others = [{**scene.texts, mine: text} for _, text in self._cases.texts(option) if text != scene.texts[mine]]
        made = self._make(scene.texts, scene.schema)
        refused: list[PenstockError] = []
        for other in (rest, *others):
            try:
                another = self._make(other, scene.schema)
            except PenstockError as error:
                refused.append(error)
                continue
            if type(another) is not type(made):
                return None
            places = differences(made, another, (OptionValues,))
            if places:  # none, where the value is the default
                return places
        if len(refused) == 1 + len(others):
            raise refused[0]
        return set()

    def _depends(self, name: str, option: Option) -> bool:
        """Returns whether the option ``name`` has to go with ``option``: without it, it would be refused."""
        dependent = self._cases.declared.find(name)
        assert dependent is not None
        needs = [need for need in dependent.needs if not isinstance(need, tuple) and not need.negated]
        return any(need.option == option.name for need in needs)

    def _make(self, texts: Mapping[str, str], schema: pa.Schema | None) -> Any:
        values = self._cases.declared.parse(texts, owner="the options")
        if self._side == "source":
            return self._made.create_source(values)
        assert schema is not None
        return create_sink(self._made, values, schema)

    @contextlib.contextmanager
    def _quiet_while_made(self, quiet: Callable[[Any], Any]) -> Iterator[None]:
        """What is read to make a source or a sink does not count: it is made of every option."""
        kind = type(self._made)
        with mock.patch.multiple(kind, create_source=quiet(kind.create_source), create_sink=quiet(kind.create_sink)):
            yield

    # --- the uses -----------------------------------------------------------------------------------------------------

    def _reader(self, scene: Scene, kind: str) -> Any:
        source = self._data_source(dict(scene.texts))
        return getattr(source, kind)(source.schema() if scene.schema is None else from_arrow_schema(scene.schema))

    def _batch_read(self, scene: Scene, _: set[Place]) -> None:
        reader = self._reader(scene, "reader")
        _read(reader, reader.partitions(), scene)

    def _stream_read(self, scene: Scene, _: set[Place]) -> None:
        self._run(scene, None)

    def _restart(self, scene: Scene, found: set[Place]) -> None:
        offset = self._run(scene, None)
        scene.add()
        found.clear()
        self._run(scene, offset)

    def _run(self, scene: Scene, offset: dict[str, Any] | None) -> dict[str, Any]:
        reader = self._reader(scene, "streamReader")
        now: dict[str, Any] = reader.initialOffset() if offset is None else offset
        try:
            for _ in range(_ROUNDS):
                end = reader.latestOffset(now, reader.getDefaultReadLimit())
                if end == now:
                    reader.await_news(0.1)
                    continue
                _read(reader, reader.partitions(now, end), scene)
                reader.commit(end)
                now = end
            reader.reportLatestOffset()
        finally:
            reader.stop()
        return now

    def _batch_write(self, scene: Scene, _: set[Place]) -> None:
        self._write(scene, {})

    def _stream_write(self, scene: Scene, _: set[Place]) -> None:
        for number, checkpoint in self._planned():
            given = {**scene.texts, "checkpointLocation": checkpoint}
            schema = from_arrow_schema(scene.schema)
            of_tasks, of_commit = (self._data_source(given).streamWriter(schema, False) for _ in range(2))
            task = _copy(of_tasks)
            with mock.patch.object(writing, "_local_property", return_value=str(number)):
                message = task.write(iter(scene.rows))
            of_commit.commit([message], number)

    def _foreachbatch(self, scene: Scene, _: set[Place]) -> None:
        for number, checkpoint in self._planned():
            self._write(scene, {"checkpointLocation": checkpoint, "batchId": str(number), "sinkName": "one"})

    def _write(self, scene: Scene, more: dict[str, str]) -> None:
        writer = self._data_source({**scene.texts, **more}).writer(from_arrow_schema(scene.schema), False)
        message = _copy(writer).write(iter(scene.rows))
        _copy(writer).commit([message])

    def _planned(self) -> Iterator[tuple[int, str]]:
        """Two batches of a new query, as Spark notes them."""
        checkpoint = self._folder / uuid.uuid4().hex
        for name in ("offsets", "commits"):
            (checkpoint / name).mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        for number in range(2):
            (checkpoint / "offsets" / str(number)).write_text(f"v1\n{{}}\n{number}")
            yield number, str(checkpoint)
            (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def _copy(value: Any) -> Any:
    """Returns what arrives in another process."""
    return pickle.loads(cloudpickle.dumps(value))


def _read(reader: Any, partitions: list[Any], scene: Scene) -> None:
    scene.meanwhile()
    for partition in partitions:
        for _ in _copy(reader).read(_copy(partition)):
            pass
