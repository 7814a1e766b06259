"""What must not be in a stored form: pickles, and secrets."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

__all__ = ["problems_in"]

#: How a pickle of protocol 2 to 5 begins, where it is a whole value: as it is, and as base64.
_PICKLE = re.compile(rb"\x80[\x02-\x05](\x95.{8}|[\x28\x4b\x58\x5d\x63\x71\x7d\x8c\x94])", re.DOTALL)
_AS_TEXT = re.compile(rb"(gAS|gAW|gAN|gAJ)[A-Za-z0-9+/_-]{8}")


def problems_in(stored: Mapping[str, bytes], secrets: Mapping[str, str]) -> list[str]:
    """Returns what is wrong with stored forms, by their names. ``secrets``: values that none may hold, by option."""
    problems = []
    for name, data in stored.items():
        if _PICKLE.search(data) or _is_pickle_as_text(data):
            problems.append(f"{name} holds a pickle")
        for option, value in secrets.items():
            forms = (value.encode(), base64.b64encode(value.encode()).rstrip(b"="))
            if any(form in data for form in forms):
                problems.append(f"{name} holds the value of the secret option '{option}'")
    return problems


def _is_pickle_as_text(data: bytes) -> bool:
    for found in _AS_TEXT.finditer(data):
        start = base64.b64decode(data[found.start() : found.start() + 16] + b"==", altchars=None, validate=False)
        if _PICKLE.match(start + b"\0" * 16):
            return True
    return False
