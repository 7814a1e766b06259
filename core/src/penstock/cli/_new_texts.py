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
$name = "$module:$connector"

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

The tests are Penstock's conformance kit: each case says in its docstring what it is for, and what to look for if it
fails.
The code works on local files as it is: put your system in their place, step by step, and run the tests after each.

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

INIT = """\
\"\"\"``.format("penstock.$name")``.\"\"\"

from $module.$home import $connector

__all__ = ["$connector"]
"""

CONNECTOR = """\
\"\"\"The plugin: source and sink under one name.\"\"\"

from __future__ import annotations

from $module.sink import ${prefix}SinkConnector
from $module.source import ${prefix}SourceConnector

__all__ = ["${prefix}Connector"]


class ${prefix}Connector(${prefix}SinkConnector, ${prefix}SourceConnector):
    summary = "reads and writes local files"
    capabilities = ${prefix}SinkConnector.capabilities | ${prefix}SourceConnector.capabilities

    def describe_guarantee(self) -> str:
        return "exactly once, both ways"
"""

TESTS = """\
\"\"\"What the connector promises, proven with Penstock's conformance kit.\"\"\"

from __future__ import annotations

$imports
from $module import $connector

from penstock.testing import $suites
$tests"""

IMPORTS = {"sink": "SinkSuite, SinkTarget", "source": "SourceOrigin, SourceSuite"}
_FOR_SINKS = "import json\nimport uuid\n\nimport pytest"
TEST_IMPORTS = {"sink": _FOR_SINKS, "connector": _FOR_SINKS, "source": "import pytest"}

SUITES = {
    "sink": """

class TestSink(SinkSuite):
    connector = $connector

    @pytest.fixture
    def new_target(self, tmp_path):
        def make():
            folder = tmp_path / str(uuid.uuid4())

            def read():
                return [json.loads(line) for path in folder.glob("[!.]*") for line in path.read_text().splitlines()]

            return SinkTarget({"path": str(folder)}, read, hidden=lambda: [path.name for path in folder.glob(".*")])

        return make
""",
    "source": """

class TestSource(SourceSuite):
    connector = $connector
    limit = ("maxSplitsPerTrigger", "1", 40)

    @pytest.fixture
    def origin(self, tmp_path):
        path = tmp_path / "numbers"

        def put(ids):
            with path.open("a") as file:
                file.writelines(f"{i}\\n" for i in ids)

        return SourceOrigin({"path": str(path)}, put)
""",
}
