"""What comes from outside is one printable line in errors and logs, whatever it holds."""

from __future__ import annotations

import ast
import inspect
import logging
import pickle
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._plugins import installed_connectors
from penstock.errors import PenstockError
from penstock.printable import concise, get_logger, printable
from suite.hostile import TEXTS

ROOT = Path(__file__).parents[2]


def is_safe(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)


@settings(max_examples=200)
@given(st.text())
def test_it_is_one_line_and_a_second_call_changes_nothing(text):
    shown = printable(text)
    assert is_safe(shown) and len(shown.splitlines()) <= 1
    assert printable(shown) == shown
    assert is_safe(printable(text, lines=True).replace("\n", "").replace("\t", ""))


def test_a_message_has_no_long_middle():
    path = "/".join(f"directory{number}" for number in range(400))
    said = str(PenstockError(f"option 'path': {path} is not there: create it"))
    assert said.startswith("option 'path': directory0/") and said.endswith("/directory399 is not there: create it")
    assert len(said) < 500 and "characters]" in said
    said = str(PenstockError(f"{'a b ' * 5000}: write less"))
    assert len(said) < 3000 and said.startswith("a b a b") and said.endswith("a b : write less")
    assert str(PenstockError("x" * 500)) == "x" * 500


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([" ", "a", "word" * 200, "\n", "…[1 characters]…", "b" * 499]), max_size=60).map("".join)
)
def test_a_message_that_is_quoted_stays_as_it_is(text):
    said = concise(text)
    assert len(said) <= 3000 and concise(said) == said


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_terminal_obeys_is_escaped(text):
    shown = printable(text)
    assert is_safe(shown) and not set(shown) & set("\u202e\u2066\u2069\u200f")
    if "\\" not in text:
        assert shown.encode("latin-1").decode("unicode_escape") == text, "and nothing is lost"


@pytest.mark.parametrize(
    "text", ["", "Zürich → 東京 ✓", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "👩\u200d🚀", "a\\nb"]
)
def test_what_is_printable_stays_as_it_is(text):
    assert printable(text) == text


def every_error() -> list[type[PenstockError]]:
    for connector in installed_connectors():
        connector.load()
    found, todo = [], [PenstockError]
    while todo:
        found.append(todo.pop())
        todo += found[-1].__subclasses__()
    return [one for one in found if one.__module__.startswith("penstock")]


@pytest.mark.parametrize("text", TEXTS)
def test_the_message_of_every_error_is_one_printable_line(text):
    found = every_error()
    assert len(found) > 8
    for kind in found:
        parameters = inspect.signature(kind.__init__).parameters.values()
        needed = [one for one in parameters if one.name != "self" and one.kind == one.POSITIONAL_OR_KEYWORD]
        error = kind(*(text if one.annotation in ("str", str) else 1 for one in needed)) if needed else kind(text)
        assert is_safe(str(error)), kind
        assert str(pickle.loads(pickle.dumps(PenstockError(text)))) == printable(text)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log():
    logger, handler = get_logger("penstock.tests.printable"), Lines()
    logger.addHandler(handler)
    yield logger, handler.lines
    logger.removeHandler(handler)


@pytest.mark.parametrize("text", TEXTS)
def test_a_log_message_is_one_printable_line(log, text):
    logger, lines = log
    logger.warning("%s was refused: %s", text, text)
    logger.warning(text.replace("%", "%%"))
    assert lines[0] == f"{printable(text)} was refused: {printable(text)}"
    assert len(lines) == 2 and all(map(is_safe, lines))


def test_a_stack_trace_keeps_its_lines_and_nothing_else(log):
    logger, lines = log
    try:
        raise ValueError("a\x1b[2J\nb")
    except ValueError:
        logger.exception("failed")
    first, *trace = lines[0].splitlines()
    assert first == "failed" and "Traceback" in trace[0] and trace[-2:] == ["ValueError: a\\x1b[2J", "b"]


def test_every_logger_of_ours_is_made_so():
    """A logger made by ``logging.getLogger`` writes whatever a server has answered."""
    files = [*(ROOT / "core" / "src").rglob("*.py"), *(ROOT / "connectors").glob("*/src/**/*.py")]
    assert len(files) > 100
    for path in files:
        if path.name == "printable.py" or "getLogger" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger":
                (name,) = node.args
                # Loggers of clients are listened to or filtered, never written to.
                assert isinstance(name, ast.Constant) and not name.value.startswith("penstock"), path
