"""The commands and their arguments. Each loads its own module when it is called, so that the quick ones stay quick."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from penstock._version import __version__
from penstock.cli._plugins import PluginCommands
from penstock.cli.plugin import check_flags, option_pairs
from penstock.errors import BadConfigurationError, PenstockError

__all__ = ["app", "main"]

#: The command ``penstock``, with its subcommands.
app = typer.Typer(
    name="penstock",
    cls=PluginCommands,
    help="Exactly-once sources and sinks for PySpark: run pipelines, inspect connectors and checkpoints.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _NewKind(str, Enum):
    source = "source"
    sink = "sink"
    database = "database"
    connector = "connector"
    pipeline = "pipeline"


_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
_SinkName = Annotated[
    str, typer.Option("--sink", metavar="NAME", help="Only this one of the sinks that a batch function writes to.")
]
_Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="An option of the sink, such as a secret. Repeatable."),
]


def main() -> None:
    """The entry point. Errors that Penstock raises on purpose are printed in words, and so are paths and addresses that
    can't be used.
    """
    try:
        app()
    except (PenstockError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            _leave_quietly()
        from penstock._causes import explain
        from penstock.cli._screen import say

        say(f"penstock: {explain(error)}", error=True)
        sys.exit(2 if isinstance(error, BadConfigurationError) else 1)


def _leave_quietly() -> NoReturn:
    # The reader of our output (head, less) has left; closing keeps Python quiet about it at exit.
    sys.stderr.close()
    sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        from penstock.cli._screen import say

        say(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _penstock(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file (YAML).", show_default=False)],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print progress as JSON lines on the standard output.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print progress as log lines, also on a terminal.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the file for mistakes and start nothing.")] = False,
    finish: Annotated[
        bool,
        typer.Option(
            help="After an availableNow run, publish what is open (with a penstock source, the last batch does)."
        ),
    ] = True,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log and whole stack traces.")] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve metrics for Prometheus there, on 127.0.0.1 unless you name a host; 0 takes a free port.",
        ),
    ] = None,
) -> None:
    """Runs a pipeline file: a source, transformations, a sink."""
    from penstock.cli._run import MetricsPlace, RunChoices
    from penstock.cli._run import run as run_pipeline

    if check:
        others = {"--json": as_json, "--plain": plain, "--verbose": verbose, "--metrics": metrics is not None}
        check_flags("--check", {**others, "--no-finish": not finish})
    if as_json:
        check_flags("--json", {"--plain": plain})
    live = sys.stdout.isatty() and not plain and not verbose
    place = None if metrics is None else MetricsPlace.parse(metrics)
    display = "json" if as_json else "live" if live else "plain"
    raise typer.Exit(run_pipeline(pipeline, RunChoices(display, check, finish, verbose, place)))


@app.command()
def dashboard(
    progress: Annotated[
        Path, typer.Argument(help="Lines of 'penstock run --json', or Spark's progress as JSON.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("dashboard.html"),
    watch: Annotated[bool, typer.Option(help="Redraw it until the run has ended; the page reloads itself.")] = False,
) -> None:
    """Draws the progress of a query as a page of charts."""
    from penstock.cli._dashboard import write_dashboard
    from penstock.cli._screen import say

    place = f"{output.absolute().as_uri()}{' (until the run ends, or Ctrl-C)' if watch else ''}"
    try:
        write_dashboard(progress, output, watch=watch, written=lambda: say(place))
    except KeyboardInterrupt:
        raise typer.Exit from None


@app.command("list")
def list_connectors(as_json: _AsJson = False) -> None:
    """Lists the installed connectors, and whether they fit this core."""
    from penstock.cli._list import show_list

    raise typer.Exit(show_list(as_json=as_json))


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="A connector, such as filesystem.", show_default=False)],
    as_json: _AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a documentation page.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            *("--option", "-o"),
            metavar="NAME=VALUE",
            help="An option of the source: shows what a read would do with it. Repeatable.",
        ),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="CONDITION", help="Such as 'day >= 2026-01-01': can the source apply it? Repeatable."
        ),
    ] = None,
) -> None:
    """Describes every option of a connector; with options, shows what a read would do."""
    if option or condition:
        check_flags("--option" if option else "--filter", {"--markdown": markdown})
    if as_json:
        check_flags("--json", {"--markdown": markdown})
    if option or condition:
        from penstock.cli._explain import show_read

        raise typer.Exit(show_read(name, option_pairs(option), condition or [], as_json=as_json))
    from penstock.cli._describe import show_connector

    raise typer.Exit(show_connector(name, "json" if as_json else "markdown" if markdown else "text"))


@app.command()
def doctor(
    as_json: _AsJson = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Let Spark's Python processes start faster; not while Spark runs here.")
    ] = False,
) -> None:
    """Checks this installation: what is wrong, and how to fix it."""
    from penstock.cli._doctor import show_health

    raise typer.Exit(show_health(as_json=as_json, fix=fix))


@app.command()
def explain(
    code: Annotated[str, typer.Argument(help="Such as PENSTOCK-KAFKA-001, as errors end with.", show_default=False)],
    as_json: _AsJson = False,
) -> None:
    """Explains an error's code: what it stands for, its causes, and what to do."""
    from penstock.cli._explain_code import show_code

    raise typer.Exit(show_code(code, as_json=as_json))


@app.command()
def inspect(
    checkpoint: Annotated[str, typer.Argument(help="A query's checkpoint, a path or a URL.", show_default=False)],
    option: _Options = None,
    as_json: _AsJson = False,
) -> None:
    """Explains what a checkpoint holds: offsets, decisions, open pieces."""
    from penstock.cli._inspect import show_checkpoint

    raise typer.Exit(show_checkpoint(checkpoint, option_pairs(option), as_json=as_json))


_CheckpointArgument = Annotated[str, typer.Argument(help="A query's checkpoint, a path or a URL.", show_default=False)]


@app.command()
def finish(
    checkpoint: _CheckpointArgument,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Also publish what a stopped query has decided. A query that still runs stops."
        ),
    ] = False,
    sink: _SinkName = "",
    option: _Options = None,
    as_json: _AsJson = False,
) -> None:
    """Closes and publishes what a query has committed and still holds open. Safe while it runs.

    Exit codes: 0 (nothing is open), 3 (gave way to a batch: call it again), 4 (a batch is decided and not published).
    """
    from penstock.cli._finish import finish_checkpoint

    given = option_pairs(option)
    raise typer.Exit(finish_checkpoint(checkpoint, given, sink=sink, take_over=take_over, as_json=as_json))


@app.command()
def replay(
    checkpoint: _CheckpointArgument,
    sink: Annotated[
        str, typer.Option("--sink", metavar="NAME", help="Which sink of a batch function; in a group: GROUP/MEMBER.")
    ] = "",
    option: _Options = None,
    source_option: Annotated[
        list[str] | None,
        typer.Option("--source-option", metavar="NAME=VALUE", help="How to reach the source, to send records back."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Send records to this topic, stream or directory, not where they were.")
    ] = None,
    spark: Annotated[
        list[str] | None, typer.Option("--spark", metavar="NAME=VALUE", help="A setting of Spark. Repeatable.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Sends the dead letters of a query through again, each once: records to their source, refused rows to the sink."""
    from penstock.cli._replay import send_letters

    code = send_letters(
        checkpoint,
        option_pairs(option),
        sink=sink,
        source_options=option_pairs(source_option),
        to=to,
        conf=option_pairs(spark),
        as_json=as_json,
    )
    raise typer.Exit(code)


@app.command()
def resolve(
    checkpoint: _CheckpointArgument,
    drop_lost: Annotated[
        bool, typer.Option("--drop-lost", help="Leave out the lost rows, and publish the rest.")
    ] = False,
    write_all_again: Annotated[
        bool, typer.Option("--write-all-again", help="Write the whole batch again; published rows are duplicated.")
    ] = False,
    sink: _SinkName = "",
    option: _Options = None,
) -> None:
    """Ends a batch of which a part is published and another part is lost. The query must not run."""
    from penstock.cli._finish import resolve_batch

    given = option_pairs(option)
    raise typer.Exit(resolve_batch(checkpoint, given, sink=sink, drop_lost=drop_lost, write_all_again=write_all_again))


@app.command("restore-offsets")
def restore_offsets(checkpoint: _CheckpointArgument, option: _Options = None) -> None:
    """Writes back Spark's offsets of the last decided batch, if they were deleted or replaced."""
    from penstock.cli import _finish

    raise typer.Exit(_finish.restore_offsets(checkpoint, option_pairs(option)))


@app.command()
def adopt(
    checkpoint: _CheckpointArgument,
    moved: Annotated[bool, typer.Option("--moved", help="The checkpoint that it was made from is gone.")] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Both continue, as separate queries.")] = False,
    option: _Options = None,
) -> None:
    """Accepts the new place of a checkpoint that was moved or copied."""
    from penstock.cli._finish import adopt_checkpoint

    raise typer.Exit(adopt_checkpoint(checkpoint, option_pairs(option), moved=moved, copy=copy))


@app.command()
def new(
    kind: Annotated[_NewKind, typer.Argument(help="What to start with.", show_default=False)],
    name: Annotated[
        str,
        typer.Argument(help="Of the pipeline or connector (format: penstock.NAME).", show_default=False),
    ],
    directory: Annotated[Path, typer.Option("--directory", "-d", help="Where to create it.")] = Path(),
) -> None:
    """Writes a pipeline to start from, with some input, or a connector that passes the conformance kit at once."""
    if kind is _NewKind.pipeline:
        from penstock.cli._new_pipeline import new_pipeline

        raise typer.Exit(new_pipeline(name, directory))
    from penstock.cli._new import new_connector

    raise typer.Exit(new_connector(kind.value, name, directory))


_dev = typer.Typer(
    help="Starts servers to try connectors with, in containers or without. They listen on 127.0.0.1 only.",
    no_args_is_help=True,
)
app.add_typer(_dev, name="dev")
_DevName = Annotated[str, typer.Argument(help="A connector, such as kafka.", show_default=False)]


@_dev.command("up")
def dev_up(
    name: _DevName,
    way: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="address|container|process",
            help="How to get one, instead of the first possible way: by the address in the environment variable, "
            "a container, or a process from the published jars.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on; by default a free one.", min=1, max=65_535)
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Another version of the server than the usual one, such as 3.9.1.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Starts a server that outlives this command, or finds it running; prints its address."""
    from penstock.cli._dev import start_server

    raise typer.Exit(start_server(name, way, port, version, as_json=as_json))


@_dev.command("down")
def dev_down(
    name: _DevName,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep the data for the next start.")] = False,
    as_json: _AsJson = False,
) -> None:
    """Stops a server that was started, and deletes its data."""
    from penstock.cli._dev import stop_server

    raise typer.Exit(stop_server(name, keep_data=keep_data, as_json=as_json))


@_dev.command("status")
def dev_status(as_json: _AsJson = False) -> None:
    """Lists the servers that were started, and their state."""
    from penstock.cli._dev import show_status

    raise typer.Exit(show_status(as_json=as_json))
