"""``penstock.replay``: dead letters are sent through again, each once.

A streaming query reads the letters that a checkpoint's sink has sent away. Its batch function writes what they hold:
records to the topics and streams that they come from, and rows that were refused to the sink itself. Its checkpoint,
below the sink's, knows which letters have been sent.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.functions import from_json, when
from pyspark.sql.pandas.types import from_arrow_schema

from penstock._letters import letters_of, parse_letters
from penstock._plugins import find_connector
from penstock.checkpoint import StoredSink, chain_of, home_of, named_sinks, stored_sink_of
from penstock.connector import Connector
from penstock.dead_letters import LETTER_SCHEMA, is_letter_type
from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import OptionValues
from penstock.spark._foreach_batch import batch_writer
from penstock.spark._locations import Home
from penstock.spark._workers import classic_context
from penstock.storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock._letters import Destination

__all__ = ["Replay", "replay"]

#: What stages are called in Penstock's own letters; Kafka Connect has other names, all of them before its sink.
_KIND = ("stage", "connector", "source")
_OWN_STAGES, _REFUSED = ("source", "sink"), "sink"


def replay(
    spark: SparkSession,
    checkpoint: str,
    options: Mapping[str, str] | None = None,
    *,
    sink: str = "",
    source_options: Mapping[str, str] | None = None,
    to: str | None = None,
) -> int:
    """Sends the dead letters of a query through again, and returns how many it has read. Blocks until all are sent.

    What a source could not decode goes back as it was to the topic or stream that it came from, where the query reads
    it again; rows that a sink refused go to that sink. Letters that fail once more are dead letters again. Each letter
    is sent once: the next call continues after the last one, also if this one is killed.

    ``checkpoint`` is the query's; ``sink`` names one of its batch function's sinks, and with ``GROUP/MEMBER`` one of a
    group. ``options`` adds what is secret to the sink's options, and replaces the others; where the sink delivers at
    least once, its checkpoint knows none, and ``deadLetters.format`` and its options are needed. ``source_options`` say
    where records go back to, such as ``kafka.bootstrap.servers``: without them, to the system where the dead letters
    are if it is of the same kind, or where the sink writes. ``to`` is the topic, stream or directory for all records;
    those that come from files need one.

    Raises BadConfigurationError if there are no dead letters to read or no way back, and otherwise what the query
    raises. The driver of a classic session.
    """
    return Replay(spark, checkpoint, options, sink=sink, source_options=source_options, to=to).run()


class Replay:
    """One call of :func:`replay`, whose arguments it takes; see there. Reads the checkpoint, and starts nothing."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        options: Mapping[str, str] | None = None,
        *,
        sink: str = "",
        source_options: Mapping[str, str] | None = None,
        to: str | None = None,
    ) -> None:
        context = classic_context(spark)
        if context is None:
            raise BadConfigurationError("dead letters can't be sent again over Spark Connect: use a classic session")
        self._spark = spark
        place = Home.of(context, "").locate(checkpoint).rstrip("/")
        self._checkpoint = f"{place}/penstock/replay{'-' if sink else ''}{sink.replace('/', '.')}"
        stored = stored_sink_of(place, options, sink_name=sink)
        found = letters_of(options or {}) if stored is None else parse_letters(stored.connector, stored.options)
        if found is None:
            raise BadConfigurationError(_none_sent(checkpoint, is_stored=stored is not None))
        self._letters, self._letter_options = found
        self._function = _Function(
            self._checkpoint,
            *found,
            stored,
            dict(source_options or {}),
            Home.of(context, "").locate(to) if to and "/" in to else to,
            dict(options or {}),
        )

    def run(self) -> int:
        """Sends what has come since the last time; returns how many letters."""
        writer = self._frame().writeStream.foreachBatch(self._function).queryName("penstock-replay")
        query = writer.option("checkpointLocation", self._checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(self._function.read)

    def _frame(self) -> DataFrame:
        connector, form = self._letters.connector, self._letters.form
        where = connector.letter_source(self._letter_options)
        if where is None:
            raise BadConfigurationError(
                f"dead letters in penstock.{self._letters.name} can't be read as a stream: read them with spark.read, "
                "write them where they belong, and delete them"
            )
        reader = self._spark.readStream.format(f"penstock.{self._letters.name}")
        reader = reader.options(**_connecting(self._letter_options), **where)
        if not form.fields:  # they come back as they were written
            reader = reader.schema(from_arrow_schema(form.schema))
        return reader.load().selectExpr(*(f"{form.fields.get(name, name)} as {name}" for name in LETTER_SCHEMA.names))


@dataclass(frozen=True)
class _Way:
    """Where letters of one kind go: the sink's format, its options, and the rows that it gets for them."""

    format: str
    options: dict[str, str]
    rows: Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class _Function:
    """What ``foreachBatch`` calls: writes each kind of letter where it belongs, exactly once. Driver.

    Letters of one ``stage``, ``connector`` and ``source`` are a kind, and each kind is a sink of its own.
    """

    checkpoint: str
    letters: Destination
    letter_options: OptionValues
    sink: StoredSink | None
    source_options: dict[str, str]
    to: str | None
    #: How the store of the checkpoint is reached.
    storage_options: dict[str, str] = field(default_factory=dict)
    #: How many letters each batch has had.
    read: list[int] = field(default_factory=list)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        if not self.read:  # only the first batch can have been begun by an earlier call
            df = self.unsent(df, batch_id)
        if self.to is not None:
            # One kind then, from however many files they come.
            df = df.withColumn("source", when(df["stage"] == _REFUSED, df["source"]))
        df = df.persist()
        try:
            self.read.append(df.count())
            kinds = sorted((tuple(kind) for kind in df.select(*_KIND).distinct().collect()), key=repr)
            # All of them first: a letter that has no way stops the batch before anything is written.
            ways = {kind: self._way(*kind) for kind in kinds}
            for kind, way in ways.items():
                rows = way.rows(df.where(_is_of(df, kind)))
                writer = batch_writer(rows, batch_id, checkpoint=self.checkpoint, name=_name_of(kind))
                writer.format(way.format).options(**way.options).save()
        finally:
            df.unpersist()

    def unsent(self, df: DataFrame, batch_id: int) -> DataFrame:
        """Returns ``df`` without letters that an earlier call, stopped in this batch, has sent as another kind.

        They were one if that call had a ``to`` and this one has none, or the other way round. Raises
        BadConfigurationError if it had decided to send them, and did not come to it.
        """
        storage, path = open_storage(self.checkpoint, self.storage_options)
        heads = {name: chain_of(storage, home_of(path, name)).head() for name in named_sinks(storage, path)}
        begun = {name: head for name, head in heads.items() if head.link.batch >= batch_id}
        if not begun:
            return df
        sent = []
        for stage, connector, source in df.select(*_KIND).distinct().collect():
            other = _name_of((stage, connector, None if self.to is None else source))
            if stage == _REFUSED or source is None or other not in begun:
                continue
            if begun[other].pending is not None:
                raise BadConfigurationError(
                    f"{self._place}: the last replay, {'with' if self.to is None else 'without'} --to, was stopped "
                    f"while it sent letters; run: penstock finish --take-over {self.checkpoint}"
                )
            sent.append(_is_of(df, (stage, connector, source)))
        return df.where(~functools.reduce(operator.or_, sent)) if sent else df

    def _way(self, stage: str | None, connector: str | None, source: str | None) -> _Way:
        if stage == _REFUSED and self.sink is not None:
            return self._to_sink(self.sink, source)
        target = source if self.to is None else self.to
        if target is None:
            raise BadDataError(
                f"{self._place}: a record has no header __connect.errors.topic, and is no dead letter of Penstock or "
                "Kafka Connect: name where all of them go with --to"
            )
        # Kafka Connect names its own connectors.
        name = connector if connector is not None and stage in _OWN_STAGES else self.letters.name
        return self._back(name, target)

    @property
    def _place(self) -> str:
        return f"dead letters in penstock.{self.letters.name}"

    def _to_sink(self, sink: StoredSink, source: str | None) -> _Way:
        """Returns the way to the sink that refused the rows. They are dead letters once more if it still does."""
        options = sink.options.texts(secrets=True)
        back = sink.connector.letter_return()
        is_raw = all(sink.options.get(f"{part}.format", "binary") == "binary" for part in ("key", "value"))
        if back is not None and back.from_source and is_raw:
            target = source or self.to
            if target is None:
                raise BadConfigurationError(f"{self._place}: rows had no {back.target}: name one with --to")
            return _Way(f"penstock.{sink.name}", {**options, back.target: target}, _selecting(back.columns))
        schema = from_arrow_schema(pa.schema([field for field in sink.schema if not is_letter_type(field.type)]))

        def rows(letters: DataFrame) -> DataFrame:
            text = letters["value"].cast("string")
            return letters.select(from_json(text, schema, {"mode": "FAILFAST"}).alias("row")).select("row.*")

        return _Way(f"penstock.{sink.name}", options, rows)

    def _back(self, name: str, target: str) -> _Way:
        """Returns the way to where records came from."""
        connector: Connector = find_connector(name).load()
        back = connector.letter_return()
        if back is None or connector.sink_options is None:
            raise BadConfigurationError(f"{self._place}: penstock.{name} can't take records back")
        if not back.from_source and self.to is None:
            raise BadConfigurationError(
                f"{self._place}: records of penstock.{name} can't go back to {target}: name a {back.target} for them "
                "with --to"
            )
        options = {**self._connection(name, connector), **back.options, back.target: target}
        delivery = connector.sink_options.find("delivery")
        if delivery is not None and "exactly-once" in delivery.choices:
            options.setdefault("delivery", "exactly-once")
        return _Way(f"penstock.{name}", options, _selecting(back.columns))

    def _connection(self, name: str, connector: Connector) -> dict[str, str]:
        """Returns how the system is reached that records came from."""
        if self.source_options:
            return dict(self.source_options)
        if isinstance(connector, type(self.letters.connector)):
            return _connecting(self.letter_options)
        return _connecting(self.sink.options) if self.sink is not None and self.sink.name == name else {}


def _is_of(df: DataFrame, kind: tuple[str | None, ...]) -> Column:
    """Returns the condition for letters of ``kind``."""
    return functools.reduce(operator.and_, (df[name].eqNullSafe(one) for name, one in zip(_KIND, kind, strict=True)))


def _name_of(kind: tuple[str | None, ...]) -> str:
    return f"to-{hashlib.sha256(repr(kind).encode()).hexdigest()[:16]}"


def _selecting(columns: Mapping[str, str]) -> Callable[[DataFrame], DataFrame]:
    return lambda letters: letters.selectExpr(*(f"{one} as `{name}`" for name, one in columns.items()))


def _connecting(options: OptionValues) -> dict[str, str]:
    """Returns the options that say how a system is reached."""
    declared = options.declared
    texts = options.texts(secrets=True)
    return {name: text for name, text in texts.items() if (one := declared.find(name)) is not None and one.connects}


def _none_sent(checkpoint: str, *, is_stored: bool) -> str:
    if is_stored:
        return f"{checkpoint}: its sink sends no dead letters anywhere (option deadLetters.format)"
    return (
        f"{checkpoint}: no sink is stored there, as with delivery at least once: say where the dead letters are, such "
        "as -o deadLetters.format=kafka -o deadLetters.topic=... -o deadLetters.kafka.bootstrap.servers=..."
    )
