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

            return SinkTarget({"path": str(folder)}, read, hidden=lambda: [path.name for path in folder.glob(".*")])

        return make


class TestSinkOnSpark(SparkSinkSuite):
    connector, new_target = ${prefix}Connector, TestSink.new_target
"""
_ON_SPARK = """

class TestSourceOnSpark(SparkSourceSuite):
    connector, origin = ${prefix}Connector, TestSource.origin
"""

TESTS = {
    "sink": f"{_BEGIN}import json\nimport uuid\n{_ALWAYS}{_KIT}SinkSuite, SinkTarget, SparkSinkSuite\n{_SINK}",
    "connector": f"{_BEGIN}import json\nimport uuid\n{_ALWAYS}"
    """from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite, SparkSourceSuite
"""
    + _SINK
    + """

class TestSource(SourceSuite):
    connector = ${prefix}Connector

    @pytest.fixture
    def origin(self, tmp_path):
        def put(ids):
            whole = tmp_path / "whole"
            whole.write_text("".join(f'{{"id": {i}}}\\n' for i in ids))
            (tmp_path / "in").mkdir(exist_ok=True)
            whole.rename(tmp_path / "in" / f"{uuid.uuid4()}.jsonl")

        return SourceOrigin({"path": str(tmp_path / "in")}, put)
"""
    + _ON_SPARK,
    "source": f"{_BEGIN}{_ALWAYS}from penstock.testing import SourceOrigin, SourceSuite, SparkSourceSuite\n"
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

        return SourceOrigin({"path": str(path)}, put)
""" + _ON_SPARK,
}
