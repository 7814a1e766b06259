"""The options for dead letters, which every sink has."""

from __future__ import annotations

from penstock.options._common import common_option
from penstock.options._conditions import when
from penstock.options._option import Option
from penstock.options._secrets import sounds_secret

__all__ = ["DEAD_LETTER_FORMAT", "DEAD_LETTER_OPTIONS", "DEAD_LETTER_PREFIX"]

#: What the names of options for the sink of dead letters begin with.
DEAD_LETTER_PREFIX = "deadLetters."
#: The option that names its connector.
DEAD_LETTER_FORMAT = f"{DEAD_LETTER_PREFIX}format"
#: How names end of secrets that do not sound like one; a test compares them with what connectors declare.
_ENDS = (".key", "ssl_key", ".sas", ".kinit.cmd", ".oauthbearer.config", ".authprovider.config")
_ARE_SENT = (when(DEAD_LETTER_FORMAT),)


def _is_secret(name: str) -> bool:
    """Returns whether it may be a secret: which connector takes the option is not known here."""
    low = name.lower()
    # Those of a third-party file format may be anything.
    return sounds_secret(name) or low.endswith(_ENDS) or low.startswith(f"{DEAD_LETTER_FORMAT.lower()}.")


#: What every sink takes for its dead letters.
DEAD_LETTER_OPTIONS = (
    Option(
        DEAD_LETTER_FORMAT,
        "Where bad records, and rows that can't be written, are sent: penstock.kafka, penstock.filesystem …, with or "
        "without penstock. Without it they fail the query",
    ),
    Option(
        f"{DEAD_LETTER_PREFIX}*",
        "Options of that sink: deadLetters.topic, deadLetters.path …; its own option format is called "
        "deadLetters.fileFormat. If it is of the same format as this one, it "
        "connects as this one does, unless they say otherwise",
        needs=_ARE_SENT,
        secret_names=_is_secret,
    ),
    common_option(
        "badRecordColumn",
        ": its rows are sent to the dead letters, and the others are written without it",
        default="_bad_record",
        needs=_ARE_SENT,
    ),
)
