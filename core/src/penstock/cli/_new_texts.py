"""The texts of ``penstock new`` that are not code of the kit. ``$name`` and others are filled in."""

PYPROJECT = """\
[project]
name = "penstock-$name"
version = "0.1.0"
description = "What it connects PySpark to"
readme = "README.md"
requires-python = ">=3.10,<4"
dependencies = ["$core", "pyarrow>=17"]

[project.optional-dependencies]
test = ["penstock[testing]"]

# The name of the format: penstock.$name
[project.entry-points."penstock.connectors"]
$name = "$module:${prefix}Connector"

[tool.poetry]
packages = [{ include = "$module", from = "src" }]

[tool.pytest.ini_options]
testpaths = ["tests"]

[build-system]
requires = ["poetry-core>=2.0"]
build-backend = "poetry.core.masonry.api"
"""

README = """\
# penstock-$name

`.format("penstock.$name")` for PySpark, on Penstock's contracts.

```
pip install -e '.[test]' && pytest
```

The tests are Penstock's conformance kit.
The docstring of each case says what it is for, and what to look for if it fails.

The code works on local files.
Replace them with your system, step by step, and run the tests after each step.

`penstock list` shows the connector, `penstock describe $name` its options.
"""

WORKFLOW = """\
name: test
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ["3.10", "3.13"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: { python-version: "${{ matrix.python }}" }
      - uses: actions/setup-java@v4
        with: { distribution: temurin, java-version: "17" }
      - run: pip install -e '.[test]'
      - run: pytest
"""

_BEGIN = """\
\"\"\"What the connector promises, proven with Penstock's conformance kit: without Spark, and on it.\"\"\"

from __future__ import annotations

"""
_ALWAYS = """
import pytest
from $module import ${prefix}Connector

"""
_KIT = "from penstock.testing import "
_SINK = """

class TestSink(SinkSuite):
    connector = ${prefix}Connector

    @pytest.fixture
    def new_target(self, tmp_path):
        def make():
            folder = tmp_path / str(uuid.uuid4())

            def read():
                return [json.loads(line) for path in folder.glob("[!.]*") for line in path.open()]

            def read_table(schema):
                parsing = pa.json.ParseOptions(explicit_schema=schema)
                return pa.concat_tables(pa.json.read_json(path, parse_options=parsing) for path in folder.glob("[!.]*"))

            return SinkTarget(
                {"path": str(folder)},
                read,
                hidden=lambda: [path.name for path in folder.glob(".*")],
                lose=lambda: [path.unlink() for path in folder.glob(".*")],
                unreachable=lambda: away(folder),
                read_table=read_table,
                take=lambda: [path.unlink() for path in folder.glob("[!.]*")],
            )

        return make


class TestSinkOnSpark(SparkSinkSuite):
    connector, new_target = ${prefix}Connector, TestSink.new_target
"""
_ON_SPARK = """

class TestSourceOnSpark(SparkSourceSuite):
    connector, origin = ${prefix}Connector, TestSource.origin
"""

_FILES = "import json\nimport uuid\n\nimport pyarrow as pa\nimport pyarrow.json"

_DATABASE = """

class TestSink(SinkSuite):
    connector = ${prefix}Connector

    @pytest.fixture
    def new_target(self, tmp_path):
        def make():
            path = tmp_path / f"{uuid.uuid4()}.db"
            Database.create(str(path))

            def run(statement):
                with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
                    return connection.execute(statement).fetchall()

            def read():
                return [json.loads(line) for (line,) in run("select line from rows")]

            def read_table(schema):
                lines = "\\n".join(line for (line,) in run("select line from rows"))
                return pa.json.read_json(
                    io.BytesIO(lines.encode()), parse_options=pa.json.ParseOptions(explicit_schema=schema)
                )

            def hidden():
                return [name for (name,) in run("select name from staged union select name from commits")]

            def lose():
                with closing(Database(str(path))) as database:
                    for name in database.prepared():
                        database.roll_back(name)

            return SinkTarget(
                {"path": str(path), "retryTimeout": "200ms"},
                read,
                hidden,
                lose,
                unreachable=lambda: away(path),
                read_table=read_table,
            )

        return make


class TestSinkOnSpark(SparkSinkSuite):
    connector, new_target = ${prefix}Connector, TestSink.new_target
"""

TESTS = {
    "database": f"{_BEGIN}import io\nimport json\nimport sqlite3\nimport uuid\nfrom contextlib import closing\n\n"
    f"import pyarrow as pa\nimport pyarrow.json{_ALWAYS.rstrip()}\nfrom $module.client import Database\n\n"
    f"{_KIT}SinkSuite, SinkTarget, SparkSinkSuite, away\n{_DATABASE}",
    "sink": f"{_BEGIN}{_FILES}{_ALWAYS}{_KIT}SinkSuite, SinkTarget, SparkSinkSuite, away\n{_SINK}",
    "connector": f"{_BEGIN}{_FILES}{_ALWAYS}"
    """from penstock.testing import (
    SinkSuite,
    SinkTarget,
    SourceOrigin,
    SourceSuite,
    SparkSinkSuite,
    SparkSourceSuite,
    away,
)
"""
    # What is prepared waits in the checkpoint; what was sent and not recorded is sent again, taken away or not.
    + "".join(line for line in _SINK.splitlines(keepends=True) if not line.lstrip().startswith(("lose=", "take=")))
    + """

class TestSource(SourceSuite):
    connector = ${prefix}Connector

    @pytest.fixture
    def origin(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()

        def put_lines(lines):
            whole = tmp_path / "whole"
            whole.write_text("".join(f"{line}\\n" for line in lines))
            whole.rename(folder / f"{uuid.uuid4()}.jsonl")

        def put_table(table):
            try:
                put_lines(json.dumps(row, allow_nan=False) for row in table.to_pylist())
            except (TypeError, ValueError):
                raise NotImplementedError from None  # JSON has no such type

        return SourceOrigin(
            {"path": str(folder)},
            lambda ids: put_lines(f'{{"id": {i}}}' for i in ids),
            put_table,
            unreachable=lambda: away(folder),
        )
"""
    + _ON_SPARK,
    "source": f"{_BEGIN}{_ALWAYS}{_KIT}SourceOrigin, SourceSuite, SparkSourceSuite, away\n"
    """

class TestSource(SourceSuite):
    connector = ${prefix}Connector
    limit = ("maxSplitsPerTrigger", "1", 40)
    many = 20_000  # splits are tiny here, to have several

    @pytest.fixture
    def origin(self, tmp_path):
        path = tmp_path / "numbers"

        def put(ids):
            with path.open("a") as file:
                file.writelines(f"{i}\\n" for i in ids)

        return SourceOrigin({"path": str(path)}, put, unreachable=lambda: away(path))
""" + _ON_SPARK,
}
