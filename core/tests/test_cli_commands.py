"""The quick commands against a connector that is really installed: a package on the path, found by its entry point."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock import __version__
from penstock._commit import Batch, Link, LinkKind, StateItem, TaskOutput, TwoPhaseCommit
from penstock._plugins import find_connector
from penstock.checkpoint import open_stored_query, remember_sink
from penstock.cli import app
from penstock.cli._check import check_pipeline
from penstock.errors import BadConfigurationError, DataLostError
from penstock.storage import LocalStorage

CONNECTOR = '''
from dataclasses import dataclass
from pathlib import Path
import pyarrow as pa
from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet
from penstock.connector import Connector
from penstock.serialization import JsonSerializer
from penstock.sink import Committer, Found, StateReplacement, StateRoller, SupportsStateRolling, TwoPhaseCommitSink


class NotesSource:
    remembers_schema = False

    def __init__(self, schema):
        self._schema = schema

    def fixed_schema(self):
        return self._schema


@dataclass(frozen=True)
class NotesSink(TwoPhaseCommitSink, SupportsStateRolling):
    """States and committables are file names; publishing takes a file out of hiding."""

    path: str

    @property
    def committable_serializer(self):
        return JsonSerializer(1, lambda value: value, lambda _, value: value)

    state_serializer = committable_serializer

    def create_writer(self, context):
        raise NotImplementedError

    def create_committer(self, context):
        return NotesCommitter(self)

    def create_roller(self, context):
        return NotesRoller(self)

    def describe_state(self, state):
        return f"open note {state}"

    def describe_committable(self, committable):
        return f"note {committable}"


class NotesRoller(StateRoller):
    def __init__(self, sink):
        self.sink = sink

    def roll(self, states, *, finish):
        return [StateReplacement([index], committables=[state]) for index, state in enumerate(states) if finish]

    def abort(self):
        pass


class NotesCommitter(Committer):
    def __init__(self, sink):
        self.sink = sink

    def look(self, committables):
        lost = Path(self.sink.path, "lost").exists()
        there = [Path(self.sink.path, name).exists() for name in committables]
        return [Found.COMMITTED if one else Found.LOST if lost else Found.OPEN for one in there]

    def publish(self, committables):
        for name in committables:
            Path(self.sink.path, name).touch()
        return [Found.COMMITTED for _ in committables]

    def seal(self, committables):
        pass

    def discard(self, committables, states):
        pass


class NotesConnector(Connector):
    summary = "Notes on paper"
    source_options = OptionSet((
        Option("path", "Where the notes lie", required=True),
        Option("lines", "Lines a batch", kind="int", default="10", minimum=1),
        Option("order", "How to read", kind="choice", choices=("up", "down"), default="down"),
        Option("pin", "What opens the drawer", kind="int", secret=True),
        Option("fixed", "Know the schema", kind="bool", default="false"),
        Option("ink.*", "Anything about ink"),
    ))
    sink_options = OptionSet((
        Option("path", "Where to put them", required=True),
        Option("password", "What opens the drawer", secret=True),
    ))
    capabilities = frozenset({"batch-read", "stream-read", "stream-write", "exactly-once"})

    def create_source(self, options):
        if options["order"] == "up" and options["lines"] > 100:
            raise BadConfigurationError("order=up takes at most 100 lines")
        return NotesSource(pa.schema([("note", pa.string())]) if options["fixed"] else None)

    def create_sink(self, options, schema):
        return NotesSink(options["path"])

    def describe_guarantee(self):
        return "as sure as paper"
'''

runner = CliRunner()


def install(site: Path, name: str, code: str, core: str) -> None:
    """A package as pip leaves it: a module and its metadata."""
    (site / f"penstock_{name}.py").write_text(code)
    info = site / f"penstock_{name}-1.2.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: penstock-{name}\nVersion: 1.2\nRequires-Dist: penstock{core}\n"
    (info / "METADATA").write_text(metadata)
    entry = f"[penstock.connectors]\n{name} = penstock_{name}:{name.title()}Connector\n"
    (info / "entry_points.txt").write_text(entry)


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    install(site, "notes", CONNECTOR, ">=0.1,<9")
    monkeypatch.syspath_prepend(str(site))
    yield site
    for name in [name for name in sys.modules if name in ("penstock_notes", "penstock_broken", "penstock_future")]:
        del sys.modules[name]


# --- list, describe -----------------------------------------------------------------------------------------------


def listed(result) -> dict[str, dict]:
    return {one["format"]: one for one in json.loads(result.stdout)["connectors"]}


def test_list_tells_what_a_connector_can_do(site):
    notes = listed(runner.invoke(app, ["list", "--json"]))["penstock.notes"]
    assert notes == {
        "format": "penstock.notes",
        "package": "penstock-notes",
        "version": "1.2",
        "needs_core": "<9,>=0.1",
        "fits": True,
        "reads": "batch, stream",
        "writes": "stream",
        "guarantee": "as sure as paper",
        "problem": "",
    }
    assert "penstock.notes" in runner.invoke(app, ["list"]).stdout


def test_a_connector_that_does_not_fit_or_load_is_listed_with_the_reason(site):
    install(site, "future", "raise SystemExit('imported')", ">=99")
    install(site, "broken", "import no_such_module", ">=0.1")
    result = runner.invoke(app, ["list", "--json"])
    assert result.exit_code == 1
    by_format = listed(result)
    assert not by_format["penstock.future"]["fits"]
    assert "needs penstock>=99" in by_format["penstock.future"]["problem"]
    assert by_format["penstock.broken"]["fits"]
    assert "No module named 'no_such_module'" in by_format["penstock.broken"]["problem"]
    assert by_format["penstock.notes"]["problem"] == ""
    assert "needs penstock>=99" in runner.invoke(app, ["list"]).stdout


def test_list_without_connectors_says_how_to_get_one(no_connectors):
    result = runner.invoke(app, ["list"])
    assert result.exit_code == 0
    assert "pip install penstock-filesystem" in result.stdout


def test_describe_shows_every_declaration(site):
    described = json.loads(runner.invoke(app, ["describe", "notes", "--json"]).stdout)
    assert described["summary"] == "Notes on paper"
    by_name = {option["name"]: option for option in described["source_options"]}
    assert by_name["order"]["choices"] == ["up", "down"]
    assert by_name["pin"]["secret"]
    text = runner.invoke(app, ["describe", "penstock.notes"]).stdout
    for option in [*described["source_options"], *described["sink_options"]]:
        assert option["name"] in text
    markdown = runner.invoke(app, ["describe", "notes", "--markdown"]).stdout
    assert "| `order` | up \\| down | `down` | How to read |" in markdown
    assert "| `path` | string |  | *required.* Where to put them |" in markdown


def test_describe_of_an_unknown_name_suggests_the_nearest(site):
    result = subprocess.run(
        [sys.executable, "-c", "from penstock.cli import main; main()", "describe", "nots"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("penstock: no connector 'nots' is installed; did you mean 'notes'?")
    assert "Traceback" not in result.stderr


def test_help_names_the_commands_that_connectors_bring(site):
    code = """
        import typer
        app = typer.Typer(help="Sharpens pencils.")
        @app.command()
        def sharpen(): ...
        @app.command()
        def break_off(): ...
    """
    (site / "penstock_notes_cli.py").write_text(textwrap.dedent(code))
    with (site / "penstock_notes-1.2.dist-info" / "entry_points.txt").open("a") as file:
        file.write("[penstock.commands]\npencils = penstock_notes_cli:app\n")
    shown = runner.invoke(app, ["--help"]).output
    assert any(line.split()[1:3] == ["pencils", "Sharpens"] for line in shown.splitlines()), shown


def test_help_leaves_out_a_command_that_fails_and_says_so(site):
    with (site / "penstock_notes-1.2.dist-info" / "entry_points.txt").open("a") as file:
        file.write("[penstock.commands]\npencils = penstock_no_such:app\n")
    shown = runner.invoke(app, ["--help"])
    assert shown.exit_code == 0 and "run" in shown.output
    words = " ".join(shown.output.split())
    assert "the command 'pencils' (penstock_no_such:app) fails on import: ModuleNotFoundError" in words


@pytest.mark.parametrize("command", [[], ["run"], ["dev"], ["dev", "up"], ["finish"]])
def test_flags_take_no_value(command):
    text = runner.invoke(app, [*command, "--help"]).stdout
    assert "--help" in text and "<bool>" not in text


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_name_of_an_option_is_cut(site, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = runner.invoke(app, ["describe", "notes"]).stdout
    described = json.loads(runner.invoke(app, ["describe", "notes", "--json"]).stdout)
    names = [option["name"] for side in ("source_options", "sink_options") for option in described[side]]
    assert len(names) > 5 and [name for name in names if name not in text] == []
    assert max(map(len, text.splitlines())) <= columns


def test_version():
    assert runner.invoke(app, ["--version"]).stdout == f"penstock {__version__}\n"


def test_the_quick_commands_do_not_import_pyspark(site):
    code = """
        import sys
        from typer.testing import CliRunner
        from penstock.cli import app
        for command in (["list"], ["describe", "notes"], ["doctor"], ["inspect", "."], ["run", "--check", "p.yaml"]):
            CliRunner().invoke(app, command)
        sys.exit("pyspark" in sys.modules)
    """
    (site / "p.yaml").write_text("source: {format: rate}\nsink: {format: noop}\ncheckpoint: ck\n")
    env = {**os.environ, "PYTHONPATH": str(site)}
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, cwd=site, check=False).returncode == 0


# --- pipelines that use the connector -----------------------------------------------------------------------------

PIPELINE = """\
source:
  format: penstock.notes
  schema: note string
  options:
    path: in
sink:
  format: penstock.notes
  options:
    path: out
checkpoint: ck
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "penstock.notes\n  schema",
            "penstock.note\n  schema",
            "2:11: no connector 'note' is installed; did you mean 'notes'?",
        ),
        ("penstock.notes\n  schema", "notes\n  schema", "2:11: unknown format 'notes'; did you mean 'penstock.notes'?"),
        ("path: in", "pth: in", "5:5: source penstock.notes has no option 'pth'; did you mean 'path'?"),
        ("path: in", "pth: in", "2:3: source penstock.notes needs the option 'path': Where the notes lie"),
        ("path: in", "path: in\n    lines: many", "6:12: option 'lines': 'many' is not a whole number"),
        ("path: in", "path: in\n    LINES: 0", "6:12: option 'lines': '0' is below the least value 1"),
        (
            "path: in",
            "path: in\n    order: dwn",
            "6:12: option 'order': 'dwn' is not one of up, down; did you mean 'down'?",
        ),
        ("path: in", "path: in\n    pin: hunter2", "6:10: option 'pin': its value is not a whole number"),
        ("note string", "note " + "array<" * 3000, "3:11: bad schema: its types are nested too deeply"),
        ("path: in", "path: in\n    order: up\n    lines: 101", "2:11: order=up takes at most 100 lines"),
        ("  schema: note string\n", "", "2:3: a stream needs a 'schema' here (DDL, such as: id long, at timestamp)"),
        (
            "path: out",
            "path: out\n    checkpointLocation: x",
            "10:5: the checkpoint is not an option here: write the key 'checkpoint' at the top level",
        ),
    ],
)
def test_options_of_connectors_are_checked_in_place(site, tmp_path, old, new, expected):
    assert old in PIPELINE
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE.replace(old, new, 1))
    _, mistakes = check_pipeline(path, {})
    assert expected in [f"{mistake.line}:{mistake.column}: {mistake.text}" for mistake in mistakes]


def test_options_that_are_fine_pass(site, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        PIPELINE.replace("path: in", "PATH: in\n    fixed: true\n    ink.colour: blue").replace(
            "  schema: note string\n", ""
        )
    )
    pipeline, mistakes = check_pipeline(path, {})
    assert mistakes == []
    assert pipeline is not None
    assert pipeline.sources[0].options["PATH"] == f"{tmp_path}/in"


def test_run_reports_all_mistakes_and_starts_nothing(site, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.cli._session.start_session", lambda *arguments: pytest.fail("Spark was started"))
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE.replace("path: in", "pin: x").replace("checkpoint: ck\n", ""))
    result = runner.invoke(app, ["run", str(path)])
    assert result.exit_code == 2
    assert [line.removeprefix(f"{path}:") for line in result.stderr.splitlines()] == [
        "1:1: the pipeline needs the key 'checkpoint' [PENSTOCK-CORE-070]",
        "2:3: source penstock.notes needs the option 'path': Where the notes lie [PENSTOCK-CORE-070]",
        "5:10: option 'pin': its value is not a whole number [PENSTOCK-CORE-070]",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "FILE", "--check", "--json"], "--json has no effect with --check"),
        (["run", "FILE", "--check", "--plain", "--verbose"], "--plain and --verbose have no effect with --check"),
        (["run", "FILE", "--check", "--metrics", "0"], "--metrics has no effect with --check"),
        (["run", "FILE", "--check", "--no-finish"], "--no-finish has no effect with --check"),
        (["run", "FILE", "--json", "--plain"], "--plain has no effect with --json"),
        (["run", "FILE", "--no-finish"], "--no-finish has an effect only with 'trigger: availableNow'"),
        (["describe", "notes", "--json", "--markdown"], "--markdown has no effect with --json"),
        (["describe", "notes", "-o", "path=in", "--markdown"], "--markdown has no effect with --option"),
        (["describe", "notes", "--filter", "a = 1", "--markdown"], "--markdown has no effect with --filter"),
    ],
)
def test_flags_that_have_no_effect_are_refused(site, tmp_path, monkeypatch, arguments, said):
    monkeypatch.setattr("penstock.cli._session.start_session", lambda *arguments: pytest.fail("Spark was started"))
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE)
    result = runner.invoke(app, [str(path) if one == "FILE" else one for one in arguments])
    assert isinstance(result.exception, BadConfigurationError), result.output
    assert said in str(result.exception)


def test_an_option_that_is_given_twice_is_refused(site):
    result = runner.invoke(app, ["describe", "notes", "-o", "path=in", "-o", "PATH=out"])
    assert result.exit_code == 2 and "'PATH' is given twice" in result.stderr


def test_run_check_and_a_file_that_is_not_there(site, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE)
    result = runner.invoke(app, ["run", "--check", str(path)])
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            f"{path}: no mistakes found (penstock.notes in → penstock.notes out)",
            "Not checked without Spark and servers: SQL, topics, tables, and whether servers answer.",
        ],
    )
    assert result.stderr == (
        f"{path}:5:11: warning: there is no {tmp_path}/in on this machine, and nothing is read until it is there\n"
    )
    result = runner.invoke(app, ["run", "--check", str(tmp_path / "no.yaml")])
    assert result.exit_code == 2
    assert "can't be read: No such file or directory" in result.stderr


# --- inspect, finish ----------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(site, tmp_path):
    """A checkpoint as Spark and the core leave it: batch 1 is planned and decided, not published, not committed."""
    root = tmp_path / "ck"
    for directory in ("offsets", "commits"):
        (root / directory).mkdir(parents=True)
    (root / "metadata").write_text('{"id":"0b9cb4f4-3aa3-4f0c-9d4c-5f2c9e6f3a11"}')
    about = json.dumps({"batchWatermarkMs": 3_600_000, "batchTimestampMs": 1_767_225_600_000, "conf": {}})
    for batch in (0, 1):
        splits = {"v": 1, "count": 3, "bytes": 2048, "data": ""}
        ours = json.dumps({"penstock": 1, "seq": batch + 1, "splits": splits})
        (root / f"offsets/{batch}").write_text(f"v1\n{about}\n{ours}\n17")
    (root / "commits/0").write_text("v1\n{}")
    (tmp_path / "out").mkdir()
    declared = find_connector("notes").load().sink_options
    options = declared.parse({"path": f"{tmp_path}/out", "password": "hunter2"}, owner="test")
    remember_sink(LocalStorage(), str(root), "notes", options, pa.schema([("note", pa.string())]))
    query = open_stored_query(str(root))
    pack = query.sink.committable_serializer.pack
    state = StateItem("s", query.sink.state_serializer.pack("c"))
    output = TaskOutput(writer=0, attempt="a", committables=(pack("a"), pack("b")), states=(state,))
    prints = [Batch(batch, (root / f"offsets/{batch}").read_bytes()).fingerprint for batch in (0, 1)]
    links = [
        Link(0, LinkKind.CLAIM, 0, id="0"),
        Link(1, LinkKind.BATCH, 1, id="1", batch=0, fingerprint=prints[0], metrics={"rows_written": 5}),
        Link(
            2,
            LinkKind.BATCH,
            2,
            id="2",
            batch=1,
            fingerprint=prints[1],
            offsets=(root / "offsets/1").read_bytes(),
            outputs=(output,),
            states=(state,),
            pending=2,
            metrics={"rows_written": 1500},
        ),
    ]
    for link in links:
        assert query.chain.create(link)
    return root


def test_inspect_tells_offsets_decisions_and_what_comes_next(checkpoint):
    result = runner.invoke(app, ["inspect", str(checkpoint), "--json"])
    view = json.loads(result.stdout)
    assert (view["planned_batch"], view["committed_batch"], view["decided_batch"]) == (1, 0, 1)
    assert view["planned_at_ms"] == 1_767_225_600_000
    assert [(s["kind"], s["splits"], s["bytes"], s["text"]) for s in view["sources"]] == [
        ("penstock", 3, 2048, ""),
        ("other", None, None, "17"),
    ]
    assert [(d["number"], d["kind"], d["done"], d["rows"]) for d in view["decisions"]] == [
        (0, "claim", True, None),
        (1, "batch", True, 5),
        (2, "batch", False, 1500),
    ]
    assert view["decisions"][2]["publishes"] == ["note a", "note b"]
    assert view["open_pieces"] == ["open note c"]
    assert view["next_start"] == [
        "publishes the pending decision 2",
        "runs batch 1 again, but writes nothing: it is decided, Spark just has not noted it",
        "carries the open pieces on until they are due",
    ]
    assert view["warnings"] == [
        "1 decision is pending and 1 open piece holds committed rows that no reader sees yet: restart the query, or "
        f"run: penstock finish --take-over {checkpoint}"
    ]
    assert "hunter2" not in result.stdout


def test_inspect_in_words(checkpoint):
    text = runner.invoke(app, ["inspect", str(checkpoint)]).stdout
    assert "batch 1 planned at 2026-01-01 00:00:00 UTC, batch 0 committed" in text
    assert "●─○" in text
    assert "2: batch 1, pending" in text
    assert "publishes note b" in text
    assert f"penstock finish --take-over {checkpoint}" in text


def test_inspect_of_a_batch_that_is_not_decided(checkpoint):
    (checkpoint / "offsets/2").write_text("v1\n{}\n18")
    (checkpoint / "commits/1").write_text("v1\n{}")
    view = json.loads(runner.invoke(app, ["inspect", str(checkpoint), "--json"]).stdout)
    assert (
        "runs batch 2 again with the same input: it was planned and neither decided nor committed" in view["next_start"]
    )


def call(*arguments):
    return runner.invoke(app, list(map(str, arguments)))


@pytest.fixture
def a_batch_comes_first(checkpoint, monkeypatch):
    """While the command closes what is open, the query decides a batch, which leaves another piece open."""
    chain, real = open_stored_query(str(checkpoint)).chain, TwoPhaseCommit._rolled
    chain.mark_done(2)

    def rolled(self, link, *, finish):
        if link.number == 2:
            more = replace(link.states[0], id="t")
            chain.create(replace(link, number=3, base=3, id="3", batch=2, outputs=(), states=(*link.states, more)))
        return real(self, link, finish=finish)

    monkeypatch.setattr(TwoPhaseCommit, "_rolled", rolled)


WHO_IS_FIRST = [
    ("a_batch_comes_first", 3, "a batch was decided at the same time", 2),
    ("checkpoint", 4, "batch 1 is decided and not published yet: the query does that, or the next start of it", 1),
]


@pytest.mark.parametrize(("first", "exit_code", "why", "left"), WHO_IS_FIRST)
def test_finish_that_gave_way_says_so_and_what_is_still_open(
    request, checkpoint, tmp_path, first, exit_code, why, left
):
    request.getfixturevalue(first)
    result = call("finish", checkpoint)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert why in result.stderr and f"; {left} open piece{'s' * (left > 1)} left" in result.stderr
    assert ("penstock finish --take-over" in result.stderr) == (exit_code == 4)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(("first", "exit_code", "why", "left"), WHO_IS_FIRST)
def test_finish_that_gave_way_says_so_as_json(request, checkpoint, first, exit_code, why, left):
    request.getfixturevalue(first)
    result = call("finish", checkpoint, "--json")
    said = json.loads(result.stdout)
    assert result.exit_code == exit_code and why in said.pop("gave_way")
    assert said == {"checkpoint": str(checkpoint), "open_pieces": left}


@pytest.mark.usefixtures("a_batch_comes_first")
def test_finish_that_gave_way_can_be_called_again(checkpoint):
    assert call("finish", checkpoint).exit_code == 3
    result = call("finish", checkpoint)
    assert result.exit_code == 0 and "published 2 pieces in 1 decision" in result.stdout


def test_finish_beside_a_query_that_is_as_quick_ends(checkpoint, tmp_path, monkeypatch):
    """A batch after every roll leaves something open again."""
    chain, real, rolls = open_stored_query(str(checkpoint)).chain, TwoPhaseCommit.roll, []
    chain.mark_done(2)
    (state,) = chain.head().link.states

    def roll(self, *, finish):
        assert len(rolls) < 9, "it goes on for ever"
        rolls.append(real(self, finish=finish))
        link, number = chain.head().link, chain.head().link.number + 1
        more = replace(state, id=f"s{number}")
        chain.create(replace(link, kind=LinkKind.BATCH, number=number, base=number, id=str(number), states=(more,)))
        return rolls[-1]

    monkeypatch.setattr(TwoPhaseCommit, "roll", roll)
    result = call("finish", checkpoint)
    assert result.exit_code == 0 and "published 1 piece in 1 decision" in result.stdout


def test_finish_that_takes_over_publishes_and_then_finds_nothing(checkpoint, tmp_path):
    result = call("finish", checkpoint, "--take-over")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "b", "c"]
    assert "published 3 pieces in 2 decisions" in result.stdout and "note c" in result.stdout
    assert call("finish", checkpoint).stdout == f"{checkpoint}: nothing was open\n"
    view = json.loads(call("inspect", checkpoint, "--json").stdout)
    assert (view["open_pieces"], view["warnings"]) == ([], [])


def test_finish_takes_options_that_were_not_stored(checkpoint, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    result = call("finish", checkpoint, "--take-over", "-o", f"path={tmp_path}/elsewhere", "--json")
    assert json.loads(result.stdout)["published"] == ["note a", "note b", "note c"]
    assert len(list((tmp_path / "elsewhere").iterdir())) == 3
    assert call("finish", checkpoint, "-o", "nonsense").exit_code == 2


@pytest.mark.parametrize(("way", "published"), [("--drop-lost", ["a", "b"]), ("--write-all-again", ["a"])])
def test_a_batch_of_which_a_part_is_lost_is_resolved(checkpoint, tmp_path, way, published):
    for name in ("a", "lost"):
        (tmp_path / "out" / name).touch()
    assert isinstance(call("finish", checkpoint, "--take-over").exception, DataLostError)
    assert "choose one" in str(call("resolve", checkpoint).exception)
    assert call("resolve", checkpoint, way).exit_code == 0
    (tmp_path / "out" / "lost").unlink()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == published
    view = json.loads(call("inspect", checkpoint, "--json").stdout)
    assert view["decided_batch"] == (1 if way == "--drop-lost" else 0)


def test_offsets_that_were_deleted_are_restored(checkpoint):
    path = checkpoint / "offsets" / "1"
    before = path.read_bytes()
    path.write_text("v1\n{}\nanother batch")
    (checkpoint / "offsets" / ".1.crc").touch()
    (checkpoint / "offsets" / "2").touch()
    assert "offsets/1 is again" in call("restore-offsets", checkpoint).stdout
    assert path.read_bytes() == before and [one.name for one in path.parent.iterdir()].count("2") == 0
    assert not (path.parent / ".1.crc").exists()


def test_a_checkpoint_that_no_sink_has_written_with_has_no_place_to_change(checkpoint):
    with pytest.raises(BadConfigurationError, match="does not know where it was made"):
        raise call("adopt", checkpoint, "--moved").exception


def test_inspect_shows_a_time_that_no_calendar_has(checkpoint):
    offsets = checkpoint / "offsets/1"
    offsets.write_text(offsets.read_text().replace("1767225600000", "9" * 20))
    result = call("inspect", checkpoint)
    assert result.exit_code == 0 and f"planned at {'9' * 20} ms" in result.stdout


def test_offsets_are_not_restored_under_batches_that_are_committed(checkpoint):
    """An older decision log was put back. With the offsets of then, what was written since would be written again."""
    for directory in ("offsets", "commits"):
        (checkpoint / directory).mkdir(exist_ok=True)
        (checkpoint / directory / "2").write_text("v1\n{}\n2")
    before = sorted(path.name for path in (checkpoint / "offsets").iterdir())
    said = str(call("restore-offsets", checkpoint).exception)
    assert "Spark has committed batch 2, and the last batch decided is 1" in said
    assert sorted(path.name for path in (checkpoint / "offsets").iterdir()) == before


def test_a_copy_is_refused_until_it_is_adopted(checkpoint, tmp_path):
    call("finish", checkpoint, "--take-over")
    shutil.copytree(checkpoint, tmp_path / "copy")
    assert "was copied or moved from" in str(call("finish", tmp_path / "copy").exception)
    assert "choose one" in str(call("adopt", tmp_path / "copy").exception)
    assert call("adopt", tmp_path / "copy", "--copy").exit_code == 0
    assert call("finish", tmp_path / "copy").exit_code == 0


@pytest.mark.parametrize("command", ["inspect", "finish"])
def test_a_directory_that_is_no_checkpoint(tmp_path, command):
    result = runner.invoke(app, [command, str(tmp_path)])
    assert "is not the checkpoint of a streaming query" in str(result.exception)


def test_inspect_still_tells_what_it_can_without_the_connector(checkpoint, no_connectors):
    view = json.loads(runner.invoke(app, ["inspect", str(checkpoint), "--json"]).stdout)
    assert "no connector 'notes' is installed" in view["sink_problem"]
    assert [decision["rows"] for decision in view["decisions"]] == [None, 5, 1500]
    assert len(view["open_pieces"]) == 1
