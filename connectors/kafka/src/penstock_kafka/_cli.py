"""``penstock kafka transactions``: what is open on the brokers, whose it is, and ending it by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from penstock.checkpoint import StoredPart, open_stored_query
from penstock.cli.plugin import Screen, as_text, check_flags, human_duration, option_pairs, say, say_json
from penstock.errors import BadConfigurationError
from penstock_kafka.client import Ended, OpenTransaction, TransactionRef
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.config import ClientSettings
from penstock_kafka.sink import KafkaTransactionalSink

__all__ = ["app"]

_PARTITIONS_SHOWN = 6

#: The command ``penstock kafka``.
app = typer.Typer(help="Lists and ends transactions left open in Kafka.", no_args_is_help=True, add_completion=False)
_transactions = typer.Typer(help="Lists open transactions, and commits or aborts them by hand.", no_args_is_help=True)
app.add_typer(_transactions, name="transactions")

_Brokers = Annotated[
    str | None, typer.Option("--bootstrap-servers", "-b", metavar="HOST:PORT", help="The brokers to ask.")
]
_Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", "-c", help="A query's checkpoint: its brokers, its transactions, its decisions."),
]
_SinkName = Annotated[
    str,
    typer.Option(
        "--sink", metavar="NAME", help="Which sink of the checkpoint's batch function; in a group: GROUP/MEMBER."
    ),
]
_Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="A client setting, such as kafka.sasl.password=…"),
]
_Id = Annotated[str, typer.Argument(help="The transactional id.", show_default=False)]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True)
class ListedTransaction:
    """One row: ``decided`` says whether the checkpoint's decision log counts on it (None without a checkpoint)."""

    transactional_id: str
    state: str
    open_for_s: int
    aborted_in_s: int
    producer: str
    partitions: list[str]
    decided: bool | None


class _Scope:
    """Where to look: given brokers, or those of a checkpoint's query."""

    def __init__(self, brokers: str | None, checkpoint: str | None, sink: str, options: list[str] | None) -> None:
        given = option_pairs(options)
        if checkpoint is not None:
            check_flags("--checkpoint", {"--bootstrap-servers": brokers is not None})
        elif sink:
            raise BadConfigurationError("--sink has an effect only with --checkpoint: leave it out")
        self.decided: set[TransactionRef] | None = None
        self._owns = lambda _: True
        if checkpoint is not None:
            part, kafka_sink = _kafka_part(checkpoint, sink, given)
            self._owns = kafka_sink.prefix_of(part.names).owns
            self.decided = {committable.ref for committable in part.pending}
            settings = kafka_sink.delivery.options.admin
        elif brokers is not None:
            kafka = {name.removeprefix("kafka."): text for name, text in given.items()}
            settings = ClientSettings.from_options({**kafka, "bootstrap.servers": brokers}, "admin")
        else:
            raise BadConfigurationError("name the brokers (--bootstrap-servers) or a query's checkpoint (--checkpoint)")
        self.coordinators = Coordinators(settings.librdkafka())

    def listed(self) -> list[ListedTransaction]:
        """Everything open, the oldest first."""
        described = self.coordinators.describe(self.coordinators.open_ids(self._owns))
        return [self._row(one) for one in sorted(described.values(), key=lambda one: one.started_ms)]

    def _row(self, one: OpenTransaction) -> ListedTransaction:
        age_ms = max(0, int(time.time() * 1000) - one.started_ms)
        return ListedTransaction(
            transactional_id=one.ref.transactional_id,
            state=one.state,
            open_for_s=age_ms // 1000,
            aborted_in_s=max(0, one.timeout_ms - age_ms) // 1000,
            producer=f"{one.ref.producer_id}/{one.ref.epoch}",
            partitions=[f"{topic}-{number}" for topic, number in one.partitions],
            decided=None if self.decided is None else one.ref in self.decided,
        )

    def one(self, transactional_id: str) -> OpenTransaction:
        """Returns the open transaction of an id. Raises BadConfigurationError if it has none."""
        found = self.coordinators.describe([transactional_id]).get(transactional_id)
        if found is None or found.state != "Ongoing":
            state = "not known to the brokers" if found is None else f"in state {found.state}"
            raise BadConfigurationError(f"'{transactional_id}' has no open transaction: it is {state}")
        return found


def _kafka_part(checkpoint: str, sink: str, options: Mapping[str, str]) -> tuple[StoredPart, KafkaTransactionalSink]:
    """Returns what writes to Kafka exactly once: the query's sink, or the member of a group, ``GROUP/MEMBER``."""
    name, _, member = sink.partition("/")
    parts = open_stored_query(checkpoint, options, sink_name=name).parts()
    found = [
        (part, part.sink)
        for part in parts
        if isinstance(part.sink, KafkaTransactionalSink) and member in ("", part.name)
    ]
    if not found:
        whose = f"'{sink}'" if sink else "its query"
        raise BadConfigurationError(f"{checkpoint}: {whose} does not write to Kafka exactly once")
    if len(found) > 1:
        names = " or ".join(f"{name}/{part.name}" for part, _ in found)
        raise BadConfigurationError(f"{checkpoint}: several sinks of '{name}' write to Kafka: set --sink to {names}")
    return found[0]


@_transactions.command("list")
def list_transactions(
    brokers: _Brokers = None,
    checkpoint: _Checkpoint = None,
    sink: _SinkName = "",
    option: _Options = None,
    as_json: _AsJson = False,
) -> None:
    """Lists open transactions. Readers of committed records wait for the oldest in each partition."""
    listed = _Scope(brokers, checkpoint, sink, option).listed()
    if as_json:
        say_json([asdict(one) for one in listed])
    elif not listed:
        say("no transaction is open")
    else:
        _print(listed)


@_transactions.command()
def commit(
    transactional_id: _Id,
    brokers: _Brokers = None,
    checkpoint: _Checkpoint = None,
    sink: _SinkName = "",
    option: _Options = None,
    yes: _Yes = False,
) -> None:
    """Makes a transaction's records visible. A query that restarts does so by itself for what it decided."""
    refusal = (
        f"the query has not decided to commit '{transactional_id}': it writes these records again, so they would be "
        "there twice. Abort it, or restart the query, which does it"
    )
    _end(transactional_id, _Scope(brokers, checkpoint, sink, option), refusal, commit=True, yes=yes)


@_transactions.command()
def abort(
    transactional_id: _Id,
    brokers: _Brokers = None,
    checkpoint: _Checkpoint = None,
    sink: _SinkName = "",
    option: _Options = None,
    yes: _Yes = False,
) -> None:
    """Discards a transaction's records, except those that the query has decided to commit."""
    refusal = f"the query has decided to commit '{transactional_id}': restart it, or run: penstock finish {checkpoint}"
    _end(transactional_id, _Scope(brokers, checkpoint, sink, option), refusal, commit=False, yes=yes)


def _end(transactional_id: str, scope: _Scope, refusal: str, *, commit: bool, yes: bool) -> None:
    """Ends an id's open transaction, if the user says so, and says so. ``refusal``: why not against the decision."""
    ref = scope.one(transactional_id).ref
    if scope.decided is not None and (ref in scope.decided) is not commit:
        raise BadConfigurationError(refusal)
    if not yes:
        typer.confirm(f"{'Commit' if commit else 'Abort'} '{transactional_id}'?", abort=True)
    if Ended.OVER in scope.coordinators.end([ref], commit=commit):
        raise BadConfigurationError(f"'{transactional_id}' was ended by another process in the meantime")
    say(f"{transactional_id}: {'committed' if commit else 'aborted'}")


def _print(listed: list[ListedTransaction]) -> None:
    console = Screen()
    decided = {
        None: "",
        True: ", [green]decided: restart the query, or penstock finish[/]",
        False: ", [yellow]not decided[/]",
    }
    for one in listed:
        console.print(f"[bold cyan]{as_text(one.transactional_id)}[/]{decided[one.decided]}", soft_wrap=True)
        partitions = ", ".join(one.partitions[:_PARTITIONS_SHOWN])
        more = f" and {len(one.partitions) - _PARTITIONS_SHOWN} more" if len(one.partitions) > _PARTITIONS_SHOWN else ""
        times = f"open for {human_duration(one.open_for_s)}, aborted in {human_duration(one.aborted_in_s)}"
        console.print(
            f"  {times}, producer {as_text(one.producer)}\n  [dim]{as_text(partitions)}{more}[/]", soft_wrap=True
        )
