"""What a pipeline file names on this machine: directories that are read, and addresses, with the packages they need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import has_magic
from pathlib import Path

from penstock.cli._check_targets import declared_options, local_path
from penstock.cli._located import Located, Mistake
from penstock.cli._pipeline import Endpoint, Pipeline
from penstock.errors import BadConfigurationError
from penstock.storage import check_address, has_scheme, missing_package

__all__ = ["check_places"]


def check_places(pipeline: Pipeline) -> list[Mistake]:
    """Returns what is missing here. A directory may come later, or be on another machine: that is a warning."""
    found = []
    for source in pipeline.sources:
        for path, at in _paths(source):
            if not has_scheme(path) and not has_magic(path) and not Path(path).exists():
                what = "and nothing is read until it is there" if not source.is_batch else "and it is read at the start"
                found.append(Mistake(*at.position, f"there is no {path} on this machine, {what}", is_warning=True))
    for end in (*pipeline.sources, *pipeline.sinks):
        if end.is_ours:
            found += [mistake for path, at in _paths(end) for mistake in _problems(path, at)]
    for is_sink, ends in ((False, pipeline.sources), (True, pipeline.sinks)):
        found += [mistake for end in ends for mistake in _missing_files(end, is_sink=is_sink)]
    if any(sink.is_ours for sink in pipeline.sinks):
        found += _problems(pipeline.checkpoint, pipeline.checkpoint_at)
    written = [place for sink in pipeline.sinks if sink.is_ours for place in _paths(sink)]
    for path, at in [*written, (pipeline.checkpoint, pipeline.checkpoint_at)]:
        local = local_path(path, pipeline.spark)
        if local is not None and (obstacle := _obstacle(Path(local))) is not None:
            found.append(Mistake(*at.position, f"{obstacle} is no directory, and one is needed: choose another path"))
    return found


def _obstacle(directory: Path) -> Path | None:
    """Returns what is in the way of making a directory: a file, or a link that leads nowhere."""
    there = next((one for one in (directory, *directory.parents) if os.path.lexists(one)), None)
    return None if there is None or there.is_dir() else there


def _paths(end: Endpoint) -> Iterator[tuple[str, Located]]:
    for name, text in end.options.items():
        if name.lower() == "path":
            yield text, end.option_places[name][1]


def _missing_files(end: Endpoint, *, is_sink: bool) -> Iterator[Mistake]:
    """Yields the files of certificates, keys and the like that are not here, where the driver is started."""
    declared, _ = declared_options(end, is_sink=is_sink)
    for name, text in end.options.items():
        option = declared.find(name)
        if option is not None and option.is_file(name, text) and not Path(text).exists():
            said = f"there is no {text} on this machine, and every machine that connects needs it"
            yield Mistake(*end.option_places[name][1].position, said, is_warning=True)


def _problems(path: str, at: Located) -> Iterator[Mistake]:
    if (package := missing_package(path)) is not None:
        scheme = path.partition("://")[0]
        yield Mistake(*at.position, f"{scheme}:// needs {package.module}: {package.install}")
        return
    try:
        check_address(path)
    except BadConfigurationError as error:
        yield Mistake(*at.position, str(error))
