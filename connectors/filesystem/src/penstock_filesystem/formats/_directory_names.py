"""Names of directories that hold a column, ``day=2026-01-01``, as Hive and Spark write them."""

from __future__ import annotations

import re

__all__ = ["NULL_PARTITION", "escape_path_name", "unescape_path_name"]

#: The value of a directory whose rows have a null in the column, or an empty text.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def escape_path_name(text: str) -> str:
    """Escapes what Hive and Spark escape: ``a/b`` → ``a%2Fb``."""
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def unescape_path_name(text: str) -> str:
    """Inverts :func:`escape_path_name`. As in Spark, each escape is one character."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
