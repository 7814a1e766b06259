"""Where reading starts and stops, as users write it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from penstock.errors import BadConfigurationError
from penstock_pravega.client import UNBOUNDED, parse_cut
from penstock_pravega.options._connection import full_stream_name

__all__ = ["CutPosition", "parse_position"]

Word = Literal["head", "tail"]
_WORDS: dict[str, Word] = {"head": "head", "tail": "tail", "earliest": "head", "latest": "tail"}


@dataclass(frozen=True)
class CutPosition:
    """For each stream (``scope/stream``) the word head or tail, or a cut: segment id → offset."""

    streams: Mapping[str, Word | Mapping[int, int]] = field(hash=False)


def parse_position(option: str, text: str | None, streams: Sequence[str], scope: str | None) -> CutPosition | None:
    """``text`` is head, tail, the text of a stream cut, or JSON ``{"stream": one of them}``; ``None`` if it is unset.

    Raises BadConfigurationError.
    """
    if text is None or text == UNBOUNDED:
        return None
    text = text.strip()
    if not text.startswith("{"):
        if len(streams) > 1 and text not in _WORDS:
            raise BadConfigurationError(
                f'option \'{option}\': with several streams write JSON: {{"scope/stream": "…"}}'
            )
        return CutPosition({stream: _one(option, text, stream) for stream in streams})
    try:
        given = {full_stream_name(name, scope): value for name, value in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise BadConfigurationError(f"option '{option}': it is not a JSON object of texts: {error}") from None
    strange = sorted(set(given) ^ set(streams))
    if strange:
        raise BadConfigurationError(
            f"option '{option}': every stream that is read must be named, no other: {strange[0]}"
        )
    return CutPosition({stream: _one(option, str(value), stream) for stream, value in given.items()})


def _one(option: str, text: str, stream: str) -> Word | Mapping[int, int]:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        named, cut = parse_cut(text)
    except ValueError as error:
        raise BadConfigurationError(
            f"option '{option}': {error}. Write head, tail, or what StreamCut.asText() printed"
        ) from None
    if named != stream:
        raise BadConfigurationError(f"option '{option}': the stream cut is one of {named}, not of {stream}")
    return cut
