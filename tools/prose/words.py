"""Words and phrases to avoid, each with what to say instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["PHRASES", "Finding", "Phrase", "findings"]


@dataclass(frozen=True)
class Finding:
    """One problem: where it is, what is wrong, and what to do."""

    line: int
    wrong: str
    do: str


@dataclass(frozen=True)
class Phrase:
    """A regular expression for a phrase to avoid, and the advice that replaces it."""

    pattern: str
    instead: str


PHRASES = (
    # Riddles: the reader has to guess who or what is meant.
    Phrase(r"told|tells? apart", "reported, detected, distinguished, or give the active sentence"),
    Phrase(r"whoever", "name the role: the caller, a user, anyone who"),
    Phrase(r"nobody|somebody|everybody", "name who it is: no reader, another process, all drivers"),
    Phrase(r"to be had", "available"),
    Phrase(r"(?:become|becomes|became) of|makes? of (?:it|them)\b", "say what happens, or what it returns"),
    Phrase(r"(?:is|are) no part of", "is not part of"),
    Phrase(r"also not|no more[.,;:]", "not even, nor, no longer"),
    # Everyday words where the field has its own.
    Phrase(r"mend(?:s|ed|ing)?", "fix, repair"),
    Phrase(r"insist(?:s|ed|ing)?", "retry"),
    Phrase(r"g(?:o|oes|ave|ive|ives|iven|iving) back to the pool|g(?:ive|ives|ave|iven|iving) back", "release, return"),
    Phrase(r"goe?s? before|went before", "takes precedence over, precedes"),
    Phrase(r"goe?s? by|went by", "uses, follows, reads"),
    Phrase(r"goe?s? on|went on|going on", "continues, resumes"),
    Phrase(r"anew", "again, or a verb with re-: re-created, restarted"),
    Phrase(r"doubled(?! quote)", "duplicated, written twice"),
    Phrase(r"comes? twice|came twice", "is duplicated, is written twice"),
    Phrase(r"on (?:its|their) way|under way", "in flight, running"),
    Phrase(r"by chance", "random, at random"),
    Phrase(r"spoken to|speaks? to", "connects to, calls"),
    Phrase(r"asked of", "sent to, requested from"),
    Phrase(r"hear(?:s|d)? of|hearing of", "learns of, discovers"),
    Phrase(r"taken for(?! granted)|takes? (?:it|them|one) for", "treated as, mistaken for, assumed to be"),
    Phrase(r"taken for granted", "assumed"),
    Phrase(r"tests? holds? (?:it|this|that)", "a test enforces it"),
    Phrase(r"beside", "next to, compared with, in addition to"),
    # Turns of phrase that are not English, or not plain English.
    Phrase(r"but for", "except for"),
    Phrase(r"nothing but", "only"),
    Phrase(r"stands? in(?! for\b)|stands? (?:beside|once|there)", "is in, is next to"),
    Phrase(r"of one's own|one's own", "your own, its own"),
    Phrase(
        r"so (?:many|much) (?:is|are|of|rows|bytes|files|events|records|times|tries|seconds)",
        "that many, or the number",
    ),
    Phrase(r"the one(?:,)? before(?: it)?|the ones? behind", "the previous one, the next one"),
    Phrase(r"for ever", "forever"),
    Phrase(r"time-outs?|time stamps?|look-ups?", "timeout, timestamp, lookup"),
    Phrase(r"e\.g\.|i\.e\.", "for example, that is"),
    # Filler.
    Phrase(r"simply|obviously|basically|of course|please note|note that", "leave it out"),
    Phrase(r"in order to|utili[sz]e[sd]?|leverag(?:e|es|ed|ing)", "to, use"),
)
_ALL = [(re.compile(rf"(?<![\w-])(?:{phrase.pattern})(?![\w-])", re.IGNORECASE), phrase) for phrase in PHRASES]


def findings(text: str, line: int) -> Iterator[Finding]:
    """Yields a finding for each phrase to avoid in ``text``, whose first line has the number ``line``."""
    for pattern, phrase in _ALL:
        for match in pattern.finditer(text):
            at = line + text.count("\n", 0, match.start())
            yield Finding(at, f'"{" ".join(match.group().split())}"', f"say: {phrase.instead}")
