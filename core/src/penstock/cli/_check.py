"""What can be known of a pipeline before Spark starts: connectors, their options, the Python entry point."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock._letters import check_sink
from penstock._path_options import change_paths
from penstock._plugins import find_connector, installed_connectors
from penstock.cli._check_columns import check_columns, check_named_columns
from penstock.cli._check_flow import check_flow
from penstock.cli._columns import Fields, arrow_of_fields, fields_of_arrow
from penstock.cli._ddl import fields_of_ddl
from penstock.cli._located import Located, Mistake
from penstock.cli._pipeline import Commit, Endpoint, Pipeline, PythonEntry, Reading, SinkSpec, SourceSpec, read_pipeline
from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError, PenstockError
from penstock.options import Mode, OptionSet, OptionValues, nearest_hint

__all__ = ["check_pipeline"]

#: Streaming formats that come with Spark, for the nearest name; others may come with a jar or a package.
_SPARK_SOURCES = ("csv", "json", "kafka", "orc", "parquet", "rate", "rate-micro-batch", "socket", "text")
_SPARK_SINKS = ("console", "csv", "json", "kafka", "memory", "noop", "orc", "parquet", "text")
_SPARK_BATCH = ("avro", "binaryfile", "jdbc", "xml")
_CHECKPOINT = "checkpointLocation"
_OPTION = re.compile(r"\boptions? '([^']+)'")


def check_pipeline(path: Path, environment: Mapping[str, str] | None = None) -> tuple[Pipeline | None, list[Mistake]]:
    """Returns the pipeline in ``path`` and every mistake in it, in the order of the file. No mistakes but warnings: it
    is whole.

    Raises OSError if the file can't be read and UnicodeDecodeError if it is not UTF-8.
    """
    reading = read_pipeline(path, environment)
    columns = {source.view: _check_source(source, reading) for source in reading.sources}
    # What a batch function writes is, for a connector, a batch.
    sink_mode: Mode = "batch" if reading.commit in (Commit.TOGETHER, Commit.EACH) else "stream"
    built = [(sink, _check_sink(sink, sink_mode, reading)) for sink in reading.sinks]
    for view in reading.views:
        if view.python is not None:
            _check_python(view.python, path.resolve().parent)
    check_flow(reading)
    rows = check_columns(reading, columns)
    for sink, found in built:
        if found is not None:
            _check_rows(sink, *found, rows.get(sink.view.lower()), reading)
    return reading.pipeline, sorted(set(reading.document.mistakes))


def _check_source(source: SourceSpec, reading: Reading) -> Fields | None:
    """Returns the columns, if they are known."""
    mode: Mode = "batch" if source.is_batch else "stream"
    connector = _check_endpoint(source, "source", mode, reading)
    declared = _declared_columns(source)
    if connector is None or connector.source_options is None:
        return declared
    needed = Capability.BATCH_READ if source.is_batch else Capability.STREAM_READ
    if needed not in connector.capabilities:
        source.format_at.complain(f"{source.format} can't be read as a {mode}")
        return declared
    try:
        values = connector.source_options.parse(source.options, owner=f"source {source.format}", mode=mode)
    except BadConfigurationError:
        return declared  # reported one by one already
    try:
        # A source holds configuration only, so building it here costs nothing and finds options that don't go together.
        built = connector.create_source(values)
        if source.schema is not None or source.is_batch:
            return declared
        fixed = built.fixed_schema()
        if fixed is None and not built.remembers_schema:
            source.at.complain("a stream needs a 'schema' here (DDL, such as: id long, at timestamp)")
        return None if fixed is None else fields_of_arrow(fixed)
    except BadConfigurationError as error:
        _complain_of(source, str(error), source.format_at)
    except PenstockError as error:
        source.format_at.complain(f"its columns are not known: {error}", is_warning=True)
    return None


def _declared_columns(source: SourceSpec) -> Fields | None:
    try:
        return None if source.schema is None else fields_of_ddl(source.schema)
    except ValueError:
        return None  # reported already


def _check_sink(sink: SinkSpec, mode: Mode, reading: Reading) -> tuple[Connector, OptionValues] | None:
    """Returns the connector and the options, if both can be used."""
    connector = _check_endpoint(sink, "sink", mode, reading)
    if connector is None or connector.sink_options is None:
        return None
    try:
        return connector, connector.sink_options.parse(sink.options, owner="", ignore=(_CHECKPOINT,), mode=mode)
    except BadConfigurationError:
        return None  # reported one by one already


def _check_rows(
    sink: SinkSpec, connector: Connector, options: OptionValues, fields: Fields | None, reading: Reading
) -> None:
    """Checks what the sink makes of its options, and of rows with ``fields`` if they are known."""
    if fields is not None and not check_named_columns(sink, fields):
        fields = None
    try:
        made = check_sink(connector, options, None if fields is None else arrow_of_fields(fields))
    except BadConfigurationError as error:
        _complain_of(sink, str(error), sink.at)
        return
    # Of sinks that share a query the check of the flow says it.
    if sink.mode == "complete" and reading.commit in (None, Commit.SEPARATE) and made is not None:
        from penstock.sink import SupportsCompleteMode

        if not issubclass(made, SupportsCompleteMode):
            sink.mode_at.complain(
                f"{sink.format} has no mode 'complete' with these options: only a sink that writes rows under their "
                "key replaces them; take mode 'append', with a watermark"
            )


def _check_endpoint(endpoint: Endpoint, role: str, mode: Mode, reading: Reading) -> Connector | None:
    """Checks format and options; the connector if the format is Penstock's and usable."""
    if not endpoint.is_ours:
        _check_foreign(endpoint, role, mode, reading)
        return None
    try:
        connector = find_connector(endpoint.format).load()
    except BadConfigurationError as error:
        endpoint.format_at.complain(str(error))
        return None
    declared = connector.source_options if role == "source" else connector.sink_options
    if declared is None:
        endpoint.format_at.complain(f"{endpoint.format} has no {role}: it can only be a {_other(role)}")
        return None
    with contextlib.suppress(BadConfigurationError):  # of dead letters: said of the sink
        endpoint.options.update(change_paths(endpoint.options, declared, reading.resolve))
    _check_options(endpoint, f"{role} {endpoint.format}", mode, declared)
    return connector


def _other(role: str) -> str:
    return "sink" if role == "source" else "source"


def _check_foreign(endpoint: Endpoint, role: str, mode: Mode, reading: Reading) -> None:
    known = (*(_SPARK_SOURCES if role == "source" else _SPARK_SINKS), *(_SPARK_BATCH if mode == "batch" else ()))
    name = endpoint.format.lower()
    if not name.strip():
        endpoint.format_at.complain("'format' is empty: name a connector, such as penstock.kafka")
        return
    ours = [connector.format for connector in installed_connectors()]
    if f"penstock.{name}" in ours:
        endpoint.format_at.complain(f"unknown format '{endpoint.format}'; did you mean 'penstock.{name}'?")
        return
    prefix, dot, rest = name.partition(".")
    if dot and difflib.get_close_matches(prefix, ["penstock"], cutoff=0.75):
        endpoint.format_at.complain(f"unknown format '{endpoint.format}'; did you mean 'penstock.{rest}'?")
        return
    may_come_from_a_jar = "." in name or any(key.startswith("spark.jars") for key in reading.spark)
    hint = nearest_hint(name, (*known, *ours))
    if name not in known and not may_come_from_a_jar and hint:
        endpoint.format_at.complain(f"unknown format '{endpoint.format}'{hint}")


def _check_options(endpoint: Endpoint, owner: str, mode: Mode, declared: OptionSet) -> None:
    """Every problem of the options, each at its place."""
    for name, (key, _) in endpoint.option_places.items():
        if name.lower() == _CHECKPOINT.lower() and declared.find(name) is None:
            key.complain("the checkpoint is not an option here: write the key 'checkpoint' at the top level")
    for problem in declared.problems(endpoint.options, owner=owner, ignore=(_CHECKPOINT,), mode=mode):
        place = endpoint.at
        if problem.name is not None:
            place = endpoint.option_places[problem.name][1 if problem.is_about_value else 0]
        place.complain(problem.message, is_warning=problem.is_warning)


def _complain_of(endpoint: Endpoint, text: str, otherwise: Located) -> None:
    """Notes a mistake at the option that the text names first, or whose value it begins with, if the file has it."""
    named = _OPTION.search(text)
    for name, (_, place) in endpoint.option_places.items():
        if named is None and endpoint.options[name] and text.startswith(f"'{endpoint.options[name]}'"):
            return place.complain(text)
        if named is not None and name.lower() == named[1].lower():
            return place.complain(text)
    otherwise.complain(text)


def _check_python(entry: PythonEntry, directory: Path) -> None:
    file = entry.file or _module_file(entry, directory)
    if file is None:
        return
    if not file.is_file():
        entry.at.complain(f"there is no file {file}")
        return
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        entry.at.complain(f"{file} is not Python: line {error.lineno}: {error.msg}")
        return
    except (UnicodeDecodeError, ValueError) as error:
        entry.at.complain(f"{file} is not Python: {error}")
        return
    names = _top_level_names(tree)
    # A star import may bring any name: then only the import itself can tell.
    if entry.function not in names and "*" not in names:
        hint = nearest_hint(entry.function, names)
        entry.at.complain(f"{file.name} has no function '{entry.function}'{hint}")


def _module_file(entry: PythonEntry, directory: Path) -> Path | None:
    """Returns the source of a module, also if it is next to the pipeline file; ``None`` if there is none to look
    at.
    """
    sys.path.insert(0, str(directory))
    try:
        spec = importlib.util.find_spec(entry.module)
    except (ImportError, ValueError, SyntaxError) as error:
        entry.at.complain(f"module '{entry.module}' can't be imported: {error}")
        return None
    finally:
        sys.path.remove(str(directory))
    if spec is None:
        entry.at.complain(f"there is no module '{entry.module}', neither installed nor next to the pipeline file")
        return None
    if spec.origin is None and spec.submodule_search_locations is not None:
        entry.at.complain(f"module '{entry.module}' is a directory, which has no functions: name a module in it")
        return None
    return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None


def _top_level_names(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.extend(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.extend(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.If | ast.Try):
            names.extend(_top_level_names(ast.Module(node.body, [])))
    return names
