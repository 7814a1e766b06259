"""The sink's options, as data and as the sink uses them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import Option, OptionSet, OptionValues, common_option, names_object, when
from penstock.serialization.formats import FormatSettings, format_options
from penstock.source.event_time import ColumnTimestamps
from penstock_pravega.client import ControllerSettings, StreamPolicy
from penstock_pravega.options._connection import (
    CONNECTION_OPTIONS,
    connection_settings,
    default_scope,
    full_stream_name,
)

__all__ = ["SINK_OPTIONS", "SinkOptions"]

DEFAULT_KEY_COLUMN = "routing_key"

_TRANSACTIONS = (when("delivery", "exactly-once"),)
_CREATED = (when("create"),)
#: A stream of bytes has one.
_ONE_SEGMENT = when("framing", "none")

#: What the sink takes, for `penstock describe` and the page.
SINK_OPTIONS = OptionSet(
    [
        *CONNECTION_OPTIONS,
        Option("stream", "The stream to write to, as scope/stream or in the scope", required=True),
        common_option(
            "delivery",
            ": none (what can't be written is dropped and counted), at-least-once, or exactly-once (transactions that "
            "the driver commits)",
            default="at-least-once",
            choices=("none", "at-least-once", "exactly-once"),
            former_choices=(("best-effort", "none"),),
        ),
        Option(
            "routingKey",
            f"What routing keys are taken from: a string column (default: {DEFAULT_KEY_COLUMN}, if there is one), or "
            "module:function, which gets an Arrow record batch and returns a string array. Events of one key keep "
            "their order; without keys they go to one segment after another",
            kind="column",
            excludes=(_ONE_SEGMENT,),
        ),
        Option(
            "framing",
            "events, or none: values are appended as they are, to a stream of one segment, like Pravega's byte streams",
            "choice",
            "events",
            ("events", "none"),
        ),
        Option(
            "transactionLease",
            "How long a transaction stays open once its lease is no longer renewed. Unset: the longest of 10m, 5m, "
            "2m, 1m, 30s and 10s that the server allows",
            "duration",
            minimum=1,
            needs=_TRANSACTIONS,
        ),
        Option(
            "watermark.timestamps",
            "A column (timestamp, date, or ms since the epoch), or a field of one (value.at). The latest time in it is "
            "noted at Pravega with each batch, for readers that use the times of writers",
            kind="column",
            needs=_TRANSACTIONS,
        ),
        Option(
            "watermark.outOfOrderness",
            "How much earlier than the latest time later rows may be: so much less is noted",
            "duration",
            "0ms",
            needs=(when("watermark.timestamps"),),
        ),
        Option("create", "Make scope and stream if they are not there", "bool", "false"),
        Option(
            "create.segments",
            "Segments at the start, and at least",
            "int",
            "1",
            minimum=1,
            needs=_CREATED,
            excludes=(_ONE_SEGMENT,),
        ),
        Option(
            "create.eventsPerSecond",
            "Scale at this many events a second in a segment",
            "int",
            minimum=1,
            needs=_CREATED,
            excludes=(_ONE_SEGMENT,),
        ),
        Option(
            "create.kbytesPerSecond",
            "Scale at this many KiB a second in a segment",
            "int",
            minimum=1,
            needs=_CREATED,
            excludes=(_ONE_SEGMENT, when("create.eventsPerSecond")),
        ),
        Option("create.retentionTime", "Keep events this long", "duration", minimum=1, needs=_CREATED),
        Option(
            "create.retentionSize",
            "Keep this many bytes",
            "bytes",
            minimum=1,
            needs=_CREATED,
            excludes=(when("create.retentionTime"),),
        ),
        *format_options("value", reading=False),
    ]
)


@dataclass(frozen=True)
class SinkOptions:
    """Checked, typed, picklable. ``stream`` is ``scope/stream``. ``key_function`` is ``module:function``. Secrets are
    in ``connection`` and ``format``, whose reprs hide them.
    """

    connection: ControllerSettings
    stream: str
    delivery: str
    key_column: str
    key_column_is_needed: bool
    key_function: str | None
    lease_ms: int | None
    timestamps: ColumnTimestamps | None
    out_of_orderness_ms: int
    create: StreamPolicy | None
    framed: bool
    format: FormatSettings

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Returns the options of ``values``. Raises BadConfigurationError for what does not go together."""
        key = (values["routingKey"] or "").strip()
        is_function = names_object(key)
        timestamps = values["watermark.timestamps"]
        return cls(
            connection=connection_settings(values),
            stream=full_stream_name(values["stream"], default_scope(values)),
            delivery=values["delivery"],
            key_column=DEFAULT_KEY_COLUMN if not key or is_function else key,
            key_column_is_needed=bool(key) and not is_function,
            key_function=key if is_function else None,
            lease_ms=values["transactionLease"],
            timestamps=ColumnTimestamps(timestamps.strip()) if timestamps is not None else None,
            out_of_orderness_ms=values["watermark.outOfOrderness"],
            create=_policy(values),
            framed=values["framing"] == "events",
            format=FormatSettings.from_values(values, "value", reading=False),
        )


def _policy(values: OptionValues) -> StreamPolicy | None:
    if not values["create"]:
        return None
    events, kbytes = values["create.eventsPerSecond"], values["create.kbytesPerSecond"]
    return StreamPolicy(
        segments=values["create.segments"],
        scale_by="events" if events else "kbytes" if kbytes else None,
        target_rate=events or kbytes or 0,
        retention_ms=values["create.retentionTime"],
        retention_bytes=values["create.retentionSize"],
    )
