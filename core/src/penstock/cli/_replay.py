"""``penstock replay``: starts Spark and sends dead letters through again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from penstock._causes import explain
from penstock.cli._draw import plural
from penstock.cli._screen import say, say_json
from penstock.cli._secrets import redactor_of_options
from penstock.cli._signals import Stopped, Stops
from penstock.errors import BadConfigurationError

__all__ = ["send_letters"]

SENT, FAILED, MISTAKEN = 0, 1, 2


def send_letters(
    checkpoint: str,
    options: Mapping[str, str],
    *,
    sink: str,
    source_options: Mapping[str, str],
    to: str | None,
    conf: Mapping[str, str],
    as_json: bool,
) -> int:
    """The command. Returns the exit code: 0, 1 (failed), 2 (a mistake in the arguments), 130 or 143 (stopped)."""
    from penstock import register, replay
    from penstock.checkpoint import stored_sink_of
    from penstock.cli._session import start_session

    stored_sink_of(checkpoint, options, sink_name=sink)  # what is wrong with it is said before Spark starts
    redact = redactor_of_options({**conf, **source_options, **options})
    stops, spark = Stops(), None
    try:
        stops.take(at_once=True)
        say("starting Spark", error=True)
        spark = start_session("penstock-replay", conf, lambda text: say(redact(text), error=True))
        register(spark)
        sent = replay(spark, checkpoint, options, sink=sink, source_options=source_options, to=to)
    except (Stopped, KeyboardInterrupt, Exception) as error:
        stops.ignore()
        code = stops.exit_code(error)
        if code is not None:
            say("penstock: stopped; run it again to send the rest", error=True)
            return code
        say(f"penstock: {redact(explain(error))}", error=True, lines=True)
        return MISTAKEN if isinstance(error, BadConfigurationError) else FAILED
    finally:
        stops.ignore()
        if spark is not None:
            with contextlib.suppress(Exception):  # its JVM may have got the signal as well
                spark.stop()
    if as_json:
        say_json({"checkpoint": checkpoint, "sent": sent})
    elif sent:
        say(f"{checkpoint}: sent {plural(sent, 'dead letter')} through again")
    else:
        say(f"{checkpoint}: no dead letters have come since the last replay")
    return SENT
