"""Every connector follows one plan, so whoever knows one knows all; and whatever leaves the plan is found."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

import layout

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "connectors").glob("*/src/penstock_*/__init__.py"))
EXAMPLE = ROOT / "examples" / "penstock-postgres" / "src" / "penstock_postgres"
BY_NAME = {path.name: path for path in PACKAGES}


@pytest.mark.parametrize("package", [*PACKAGES, EXAMPLE], ids=lambda path: path.name)
def test_a_connector_keeps_to_the_plan(package):
    assert layout.problems(package) == []


def moved(old, new):
    def change(package):
        (package / new).parent.mkdir(exist_ok=True, parents=True)
        (package / old).rename(package / new)

    return change


def replaced(path, old, new):
    def change(package):
        text = (package / path).read_text()
        assert old in text
        (package / path).write_text(text.replace(old, new))

    return change


def added(path, text):
    def change(package):
        with (package / path).open("a") as file:
            file.write(text)

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (moved("source/_reader.py", "source/reader.py"), "rename it to _reader.py"),
        (moved("source/_reader.py", "source/_fetching.py"), "PravegaSplitReader belongs in source/_reader.py"),
        (moved("source/_split.py", "source/_pieces.py"), "SPLIT_SERIALIZER belongs in source/_split.py"),
        (moved("client", "protocol"), "protocol/: not in the plan"),
        (moved("_connector.py", "_plugin.py"), "the package's one class <Name>Connector"),
        (moved("options", "settings"), "options/__init__.py: missing"),
        (replaced("source/_emitter.py", "class PravegaRecordEmitter", "class Emitter"), "named PravegaRecordEmitter"),
        (replaced("sink/_sink.py", "class PravegaTransactionalSink", "class ExactlyOnce"), "PravegaTransactionalSink"),
        (replaced("sink/_committable.py", "COMMITTABLE_SERIALIZER", "FORM_SERIALIZER"), "FORM_SERIALIZER should be"),
        (replaced("sink/__init__.py", ", create_sink", ""), "sink/__init__.py: it must offer create_sink"),
        (replaced("source/__init__.py", "PravegaSource", "Streams"), "it must offer PravegaSource"),
        (replaced("sink/_committer.py", '"penstock.pravega"', "__name__"), 'get_logger("penstock.pravega")'),
        (replaced("sink/_committer.py", "= get_logger(", "= logging.getLogger("), 'get_logger("penstock.pravega")'),
        (added("sink/_sink.py", "from penstock_pravega.source import PravegaSource\n"), "a sink does not import"),
        (added("source/_source.py", "import penstock_pravega.sink\n"), "a source does not import"),
        (
            added("sink/_sink.py", "from penstock_pravega.client._wire import Refused\n"),
            "private to penstock_pravega.cl",
        ),
        (added("source/_source.py", "from penstock.spark._read import BatchReader\n"), "private to penstock.spark"),
        (added("client/_wire.py", "from penstock_pravega.options import SinkOptions\n"), "the client does not know"),
        (added("source/_source.py", "import pravega\n"), "pravega is imported in client and dev only"),
        (added("source/_source.py", "from confluent_kafka import Consumer\n"), "is imported in client and dev only"),
    ],
)
def test_what_leaves_the_plan_is_found(tmp_path, change, says):
    package = tmp_path / "penstock_pravega"
    shutil.copytree(BY_NAME["penstock_pravega"], package, ignore=shutil.ignore_patterns("__pycache__"))
    assert layout.problems(package) == []
    change(package)
    assert any(says in line for line in layout.problems(package)), layout.problems(package)


@pytest.mark.parametrize("folder", ["core/src/penstock"])
def test_modules_of_the_core_are_private_to_their_packages(folder):
    assert layout.private_imports(ROOT / folder) == []


#: What is kept by a module although it is none of the two caches of :mod:`penstock.per_process`, and why.
KEPT_OTHERWISE = {
    "penstock._error_book.book_of": "one for each package that raises errors",
    "penstock._error_book.code_for": "one for each module that raises errors",
    "penstock._plugins._installed_in": "what is installed: holds nothing to close, and is bounded",
    "penstock.options._set._warned": "texts of warnings, so that each is given once",
    "penstock.dev._local._outliving": "processes that the command has started and leaves behind",
    "penstock.reach._kept": "one for each address where no server answered",
    "penstock.spark._ends._at_ends": "one for each session, for as long as it lives",
    "penstock.spark._last_words._failures": "failed runs, each until the process ends",
    "penstock.spark._listener._attached": "one for each session, for as long as it lives",
    "penstock.spark._connect_ends._started": "names of queries; each leaves when it is stopped",
    "penstock.spark._foreach_batch._attempts": "one for each sink of a batch function, of its last batch",
    "penstock.spark._foreach_batch._warned": "ids of runs, so that each is warned of once",
    "penstock.spark._known_query._known": "holds nothing to close, and is bounded",
    "penstock.spark._registration._accumulators": "weak references",
    "penstock.spark._registration._counts_folders": "weak references",
    "penstock.spark._sink_group._open_blocks": "blocks that run; each leaves at its end",
    "penstock.spark._session_metrics._attached": "one for each session, for as long as it lives",
    "penstock.testing._calls._patient": "threads of a test that may wait for long, each until it has",
    "penstock.testing._calls._running": "calls of a test that run; each leaves at its end",
    "penstock.testing._faults._with_abilities": "classes, one for each combination of what an author's class can do",
    "penstock.testing._processes._begun": "processes of pytest's own run, which its end closes",
    "penstock.testing.simulation._storage._living": "the storages of one simulation, in the place of those of the last",
    "penstock_kafka.client.broker._kafka_python._avoided": "addresses, each for half a minute",
    "penstock_kafka.config._without_effect._reported": "names of settings, so that each is named once",
    "penstock_kafka.client.broker._settings._report": "texts of warnings, so that each is given once",
}
_EMPTY = {"dict", "list", "set", "OrderedDict", "defaultdict", "deque", "WeakKeyDictionary", "WeakValueDictionary"}


def kept_by_modules():
    """Every empty collection and every cached function at the top of a module."""
    for package in [ROOT / "core/src/penstock", *PACKAGES]:
        for path in package.rglob("*.py"):
            module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef):
                    if any("cache" in ast.unparse(one) for one in node.decorator_list):
                        yield f"{module}.{node.name}"
                elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                    value = node.value
                    name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
                    literal = isinstance(value, (ast.Dict, ast.List)) and not ast.unparse(value)[1:-1]
                    made = isinstance(value, ast.Call) and not value.args and ast.unparse(value.func) in _EMPTY
                    if (literal or made) and name != "__all__":
                        yield f"{module}.{name}"


MIB = 1 << 20


def sizes_in_other_forms(path):
    """Products and powers of 1024, and numbers that are whole MiB: ``4 << 20`` is 4 MiB, ``64 << 10`` 64 KiB."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.BinOp):
            sides = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
            if (isinstance(node.op, ast.Mult) and 1024 in sides) or (
                isinstance(node.op, ast.Pow) and sides in ([2, 10], [2, 20], [2, 30], [1024, 2], [1024, 3])
            ):
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and type(node.value) is int and node.value in range(MIB, 1 << 31, MIB):
            yield f"{path.name}:{node.lineno}: {node.value}"


@pytest.mark.parametrize("text", ["4 * 1024", "1024 * 1024 * n", "2**20", "1024**2", "16_777_216"])
def test_sizes_have_one_form(tmp_path, text):
    module = tmp_path / "sizes.py"
    module.write_text(f"n = 4 << 20, 64 << 10, 1024, 65_536, 2**62\nm = {text}\n")
    assert [line.partition(": ")[0] for line in sizes_in_other_forms(module)][:1] == ["sizes.py:2"]


def test_sizes_are_written_in_one_form():
    folders = [ROOT / "core/src", ROOT / "tools", ROOT / "benchmarks", ROOT / "examples", *PACKAGES]
    sources = [path for folder in folders for path in folder.rglob("*.py") if "tests" not in path.parts]
    assert [line for path in sources for line in sizes_in_other_forms(path)] == []


def test_what_a_process_keeps_is_in_a_cache_that_closes_it():
    assert sorted(kept_by_modules()) == sorted(KEPT_OTHERWISE)


def inner_functions(tree):
    """Every function that is defined within another one."""
    todo = [(tree, False)]
    while todo:
        node, within = todo.pop()
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and within:
            yield node
        todo += [(child, within or is_function) for child in ast.iter_child_nodes(node)]


def test_functions_in_functions_are_found():
    source = "def a():\n def b():\n  class C:\n   def c(self): pass\nclass D:\n def d(self):\n  async def e(): e()\n"
    assert sorted(one.name for one in inner_functions(ast.parse(source))) == ["b", "c", "e"]


@pytest.mark.parametrize("package", sorted(ROOT.glob("*/src")) + sorted(ROOT.glob("connectors/*/src")), ids=str)
def test_no_inner_function_keeps_itself(package):
    """One that calls itself is a cycle, and keeps what it sees (batches of rows) until the collector comes by."""
    found = []
    for path in package.rglob("*.py"):
        for inner in inner_functions(ast.parse(path.read_text())):
            names = {one.id for part in inner.body for one in ast.walk(part) if isinstance(one, ast.Name)}
            found += [f"{path}:{inner.lineno} {inner.name}"] * (inner.name in names)
    assert found == [], "make it a loop, or a function of the module"
