"""The source's options, as data and as the source uses them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.dead_letters import LETTER_COLUMN
from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet, OptionValues, common_option, unless, when
from penstock.serialization.formats import FormatSettings, format_options
from penstock.source.event_time import EventTimeSettings, event_time_options
from penstock_pravega.client import UNBOUNDED, ControllerSettings
from penstock_pravega.options._connection import (
    CONNECTION_OPTIONS,
    connection_settings,
    default_scope,
    full_stream_name,
)
from penstock_pravega.options._cuts import CutPosition, parse_position

__all__ = ["SOURCE_OPTIONS", "SourceOptions"]

#: Value of watermark.timestamps. No column of the source has this name.
NOTED = "noted"

#: A row is one value of an Arrow array, and made in memory.
LARGEST_PIECE = 1 << 30

_BYTES_ONLY = when("framing", "none")
_WORDS = ("head", "tail", UNBOUNDED)
_OTHER_WORDS = (("earliest", "head"), ("latest", "tail"))
_COLUMNS = ("value", "stream", "segment", "offset", "position")

#: What the source takes, for `penstock describe` and the page.
SOURCE_OPTIONS = OptionSet(
    [
        *CONNECTION_OPTIONS,
        Option("stream", "Streams to read, with commas between; each as scope/stream or in the scope", required=True),
        Option(
            "startingStreamCut",
            "Where a new query starts: head, tail, a stream cut as the Java client prints it, or JSON "
            '{"scope/stream": "…"} with one of them for each stream. Default: tail for a stream, head for a batch',
            at_restart="kept",
            words=_WORDS,
            choice_aliases=_OTHER_WORDS,
        ),
        Option(
            "endingStreamCut",
            "Where reading stops, written alike; tail is where it is at the start. Default: tail for a batch; a stream "
            "without one continues, with one it ends",
            at_restart="kept once set",
            words=_WORDS,
            choice_aliases=_OTHER_WORDS,
        ),
        common_option("maxBytesPerTrigger", ", but at least an event a segment"),
        common_option("maxRowsPerTrigger", ", but at least one a segment", excludes=(_BYTES_ONLY,)),
        common_option("failOnDataLoss"),
        common_option("discoveryInterval", ": segments that replaced others", default="10s"),
        Option(
            "framing",
            "events, or none: the stream holds bytes without events in them, as Pravega's byte streams do; a row is a "
            "piece of them",
            "choice",
            "events",
            ("events", "none"),
            at_restart="refused",
        ),
        Option(
            "pieceSize",
            "Bytes of a row, except for the last one of a task",
            "bytes",
            "1mb",
            minimum=1,
            maximum=LARGEST_PIECE,
            needs=(_BYTES_ONLY,),
        ),
        Option("includePosition", "Add the column position, a text that names an event for good", "bool", "false"),
        *format_options("value", reading=True),
        common_option(
            "badRecords",
            ": fail, null (the value, with the metric bad_rows), or deadLetter (null, and the event with the reason in "
            "badRecordColumn)",
            default="fail",
            choices=("fail", "null", "deadLetter"),
            needs=(unless("value.format", "binary"),),
        ),
        common_option(
            "badRecordColumn",
            ": the event and the reason",
            default=LETTER_COLUMN,
            needs=(when("badRecords", "deadLetter"),),
        ),
        *event_time_options(None, also=f"{NOTED}: the times that Pravega's writers have noted (time windows)"),
    ]
)


@dataclass(frozen=True)
class SourceOptions:
    """Checked, typed, picklable. Streams are ``scope/stream``. Secrets are in ``connection`` and ``format``, whose
    reprs hide them. ``piece_bytes``: of a row, where there are no events; ``None`` where there are.
    """

    connection: ControllerSettings
    streams: tuple[str, ...]
    start: CutPosition | None
    stop: CutPosition | None
    max_bytes: int | None
    max_rows: int | None
    fail_on_data_loss: bool
    discovery_interval_ms: int
    include_position: bool
    format: FormatSettings
    bad_records: str
    bad_record_column: str | None
    event_time: EventTimeSettings | None
    times_are_noted: bool
    piece_bytes: int | None

    @classmethod
    def from_values(cls, values: OptionValues) -> SourceOptions:
        """Returns the options of ``values``. Raises BadConfigurationError for what does not go together."""
        scope = default_scope(values)
        names = [full_stream_name(name, scope) for name in values["stream"].split(",") if name.strip()]
        if not names or len(set(names)) != len(names):
            raise BadConfigurationError("option 'stream': it must name streams, each once")
        _check_framing(values)
        times_are_noted = (values["watermark.timestamps"] or "").strip() == NOTED
        if times_are_noted and values.is_set("watermark.strategy"):
            raise BadConfigurationError(
                f"option 'watermark.strategy': leave it out with watermark.timestamps={NOTED}, which has watermarks of "
                "its own"
            )
        return cls(
            connection=connection_settings(values),
            streams=tuple(names),
            start=parse_position("startingStreamCut", values["startingStreamCut"], names, scope),
            stop=parse_position("endingStreamCut", values["endingStreamCut"], names, scope),
            max_bytes=values["maxBytesPerTrigger"],
            max_rows=values["maxRowsPerTrigger"],
            fail_on_data_loss=values["failOnDataLoss"],
            discovery_interval_ms=values["discoveryInterval"],
            include_position=values["includePosition"],
            format=FormatSettings.from_values(values, "value", reading=True),
            bad_records=values["badRecords"],
            bad_record_column=_bad_record_column(values),
            event_time=EventTimeSettings.from_values(values),
            times_are_noted=times_are_noted,
            piece_bytes=values["pieceSize"] if values["framing"] == "none" else None,
        )


def _bad_record_column(values: OptionValues) -> str | None:
    if values["badRecords"] != "deadLetter":
        return None
    name: str = values["badRecordColumn"]
    if name in _COLUMNS:
        raise BadConfigurationError(f"option 'badRecordColumn': '{name}' is a column already")
    return name


def _check_framing(values: OptionValues) -> None:
    for name in ("value.format", "watermark.alignment.maxDrift"):
        if values["framing"] == "none" and values.is_set(name):
            raise BadConfigurationError(f"option '{name}' is about events, and with framing=none there are none")
