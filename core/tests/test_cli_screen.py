"""No text from outside makes the command line's output anything but text: each view, with hostile values everywhere."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import sys
import typing
from pathlib import Path

import pytest

from penstock.cli import _app, _explain, _inspect, _list
from penstock.cli import _doctor as doctor
from penstock.cli._checkpoint import CheckpointView
from penstock.cli._display import JsonReporter, LiveReporter, PlainReporter
from penstock.cli._panel import RunView, panel
from penstock.cli._progress import BatchProgress
from penstock.cli._run import RunChoices, run
from penstock.cli._screen import Screen, as_text, json_text, say, say_json
from penstock.errors import BadConfigurationError
from penstock.printable import printable
from suite.hostile import TEXTS

ROOT = Path(__file__).parents[2]
WORDS = [*TEXTS, "\\[bold]x", "ends with \\", "\t"]


def filled(kind, text):
    """A value of a type (a dataclass of ours, say) in which every text is ``text``: also of a field added later."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: filled(hints[field.name], text) for field in dataclasses.fields(kind)})
    if kind is str or (inner and str in inner and origin not in (list, dict)):
        return text
    if origin is list:
        return [filled(inner[0], text)]
    if origin is dict:
        return {filled(inner[0], text): filled(inner[1], text)}
    return False if kind is bool else {} if kind is typing.Any else 0


def test_only_one_module_prints():
    """A command that prints by itself would show what a terminal obeys."""
    files = [path for path in (ROOT / "core/src/penstock/cli").glob("*.py") if path.name != "_screen.py"]
    files += (ROOT / "connectors").glob("*/src/*/_cli.py")
    assert len(files) > 20
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("print", "Console", "typer.echo", "typer.secho", "rich.print"), (path, node.lineno)
                assert not name.endswith(("stdout.write", "stderr.write")), (path, node.lineno)
            if isinstance(node, ast.ImportFrom):
                assert node.module != "rich.markup", path


def shown_inspect(text):
    _inspect._Page(Screen()).show(filled(CheckpointView, text))


def shown_list(text):
    _list._print_table([filled(_list.ListedConnector, text)])


def shown_doctor(text):
    for verdict in ("ok", "bad"):
        doctor._print([dataclasses.replace(filled(doctor.Finding, text), verdict=verdict)])


def shown_read(text):
    found = {
        "format": text,
        "columns": [{"name": text, "type": text}],
        "read": [text],
        "filters": [{"condition": text, "applied": True}],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_explain, "explain_read", lambda *_: found)
        _explain.show_read("x", {}, [], as_json=False)


def shown_error(text):
    def fail():
        raise BadConfigurationError(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_app, "app", fail)
        with pytest.raises(SystemExit):
            _app.main()


def shown_lines(text):
    say(text)
    say(text, error=True)


def shown_run(text):
    for kind in (PlainReporter, JsonReporter):
        reporter = kind(RunView(text, (text, text)))
        reporter.line(text)
        reporter.batch(filled(BatchProgress, text))
        reporter.end("failed", text)


def shown_panel(text):
    view = RunView(text, (text, text))
    view.add(filled(BatchProgress, text))
    view.state, view.waits = text, [text]
    Screen().print(panel(view))


VIEWS = [shown_inspect, shown_list, shown_doctor, shown_read, shown_error, shown_lines, shown_run, shown_panel]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_every_view_shows_text_and_no_more_lines(view, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    view("x")
    usual = [len(text.splitlines()) for text in capsys.readouterr()]
    assert sum(usual)
    for text in WORDS:
        view(text)
        for out, lines in zip(capsys.readouterr(), usual, strict=True):
            assert printable(out, lines=True) == out.replace("\t", "\\t"), repr(out)
            assert len(out.split("\n")) - 1 == lines, repr(out)


@pytest.mark.parametrize("text", WORDS)
def test_markup_in_a_text_is_text(text, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    Screen().print(f"[bold]{as_text(text)}[/] ×", soft_wrap=True)
    assert capsys.readouterr().out == f"{printable(text)} ×\n"


@pytest.mark.parametrize("text", WORDS)
def test_what_was_not_quoted_is_harmless_all_the_same(text, capsys):
    Screen().print(text, markup=False)
    out = capsys.readouterr().out
    assert printable(out, lines=True) == out


@pytest.mark.parametrize("text", WORDS)
def test_json_says_the_same_and_is_printable(text, capsys):
    value = {text: [text, 1], "é": "→"}
    say_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value and printable(out, lines=True) == out and "→" in out
    assert json.loads(json_text(value)) == value and "\n" not in json_text(value)


def test_our_own_colours_stay(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    with screen.capture() as captured:
        screen.print(f"[red]{as_text('x')}[/]")
    assert captured.get() == "\x1b[31mx\x1b[0m\n"


def test_the_live_display_shows_lines_of_others_as_text(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "100")
    with LiveReporter(RunView("a\x1b]0;t\x07", ("b\n\x9b31m",))) as reporter:
        reporter.line("said\x1b[2J by a\nworker")
        reporter.batch(filled(BatchProgress, "\x1b[2J\n"))
        reporter.end("finished")
    assert "said\\x1b[2J by a\\nworker" in out.getvalue()
    assert printable(out.getvalue(), lines=True) == out.getvalue()


@pytest.mark.parametrize("text", [text for text in WORDS if "\ud800" not in text])
def test_mistakes_in_a_pipeline_file_are_a_line_each(tmp_path, capsys, text):
    for name in ("x", text):
        path = tmp_path / "p.yaml"
        quoted = json.dumps(name)
        path.write_text(
            f"{{source: {{format: {quoted}, schema: {quoted}, options: {{{quoted}: {quoted}}}}},"
            f" sink: {{format: {quoted}, mode: {quoted}}}, trigger: {quoted}, {quoted}: 1, checkpoint: c}}"
        )
        assert run(path, RunChoices("plain", check_only=True)) == 2
        out = capsys.readouterr().err
        assert printable(out, lines=True) == out
        assert all(line.startswith(f"{path}:1:") for line in out.rstrip("\n").split("\n"))
