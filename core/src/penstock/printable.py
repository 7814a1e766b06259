"""Text from outside (records, names, what servers answer) as logs, errors and terminals may show it.

A terminal obeys control sequences, a log takes a line break for the next entry, and marks of writing direction make a
text look like another. So each such character is replaced by its escape, as ``repr`` would.
"""

from __future__ import annotations

import logging
import re
import traceback

__all__ = ["concise", "get_logger", "printable"]

#: Controls (C0, DEL, C1), soft hyphen, marks of direction, invisible characters, line and paragraph separators,
#: surrogates, tags. Joiners stay: scripts and emoji need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str, *, lines: bool = False) -> str:
    """Returns ``text`` with control characters and invisible ones as escapes: ``\\n``, ``\\x1b``, ``\\u202e``.

    The result is one line; with ``lines``, line breaks and tabs stay. What is printable already is returned as it is,
    so a second call changes nothing.
    """
    return _UNSAFE.sub(_kept_or_escaped if lines else _escaped, text)


#: What is quoted is seldom longer: an address, a path, an option's text.
_LONG_WORD = re.compile(r"\S{501,}")
_LONGEST = 3000


def concise(text: str) -> str:
    """Returns a message as a person reads it: printable, long words and a long whole without their middle.

    What it returns is returned as it is. So a message may be quoted in another one.
    """
    text = _LONG_WORD.sub(lambda word: _without_middle(word.group(), 300, 100), printable(text))
    return _without_middle(text, 2000, 700) if len(text) > _LONGEST else text


def _without_middle(text: str, first: int, last: int) -> str:
    return f"{text[:first]}…[{len(text) - first - last:,} characters]…{text[-last:]}"


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")


def _kept_or_escaped(match: re.Match[str]) -> str:
    return match.group() if match.group() in "\n\t" else _escaped(match)


class _OneLine(logging.Filter):
    """Makes each message one printable line; a stack trace keeps its lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        shown = printable(message)
        if shown != message:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_text = printable(trace, lines=True)
        return True


_one_line = _OneLine()


def get_logger(name: str) -> logging.Logger:
    """Returns the logger ``name``, whose messages are each one printable line, whatever is quoted in them.

    Connectors use it in place of ``logging.getLogger``.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_one_line)
    return logger
