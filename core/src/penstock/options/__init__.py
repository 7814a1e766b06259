"""Options declared once, as data: validation, ``penstock describe`` and the reference page are made from them.

An :class:`Option` says what it is called, which values it takes, and what it needs of other options
(:func:`when`, :func:`unless`). An :class:`OptionSet` checks what a user gave against all of that, and returns
:class:`OptionValues`. :func:`common_option` declares the options that mean the same in every connector.
"""

from penstock.options._common import COMMON_OPTIONS, OF_THE_ENGINE, common_option
from penstock.options._conditions import Condition, unless, when
from penstock.options._dead_letters import DEAD_LETTER_FORMAT, DEAD_LETTER_OPTIONS, DEAD_LETTER_PREFIX
from penstock.options._option import AtRestart, Mode, Option, connecting, nearest_hint
from penstock.options._restarts import held_by_checkpoint
from penstock.options._secrets import credentials_in, sounds_secret, without_credentials
from penstock.options._set import OptionProblem, OptionSet, OptionValues, complete_options, warn_once
from penstock.options._units import (
    load_object,
    names_http_server,
    names_object,
    parse_bytes,
    parse_duration_ms,
    parse_pairs,
    parse_port,
)

__all__ = [
    "COMMON_OPTIONS",
    "DEAD_LETTER_FORMAT",
    "DEAD_LETTER_OPTIONS",
    "DEAD_LETTER_PREFIX",
    "OF_THE_ENGINE",
    "AtRestart",
    "Condition",
    "Mode",
    "Option",
    "OptionProblem",
    "OptionSet",
    "OptionValues",
    "common_option",
    "complete_options",
    "connecting",
    "credentials_in",
    "held_by_checkpoint",
    "load_object",
    "names_http_server",
    "names_object",
    "nearest_hint",
    "parse_bytes",
    "parse_duration_ms",
    "parse_pairs",
    "parse_port",
    "sounds_secret",
    "unless",
    "warn_once",
    "when",
    "without_credentials",
]
