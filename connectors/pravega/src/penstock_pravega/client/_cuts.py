"""Stream cuts as text, in the form that Pravega's Java client prints and takes."""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping

from penstock_pravega.client._names import epoch_of, number_of

__all__ = ["UNBOUNDED", "cut_text", "parse_cut"]

#: What the Java client prints for no cut at all.
UNBOUNDED = "UNBOUNDED"

_VERSION = "0"
_MOST_TEXT = 10_000_000


def parse_cut(text: str) -> tuple[str, dict[int, int]]:
    """``scope/stream`` and segment id → offset. The text is base64 of gzip of
    ``0:scope/stream:numbers:epochs:offsets``. Raises ValueError.
    """
    try:
        packed = zlib.decompressobj(31)
        plain = packed.decompress(base64.b64decode(text, validate=True), _MOST_TEXT).decode()
        version, stream, numbers, epochs, offsets = plain.split(":", 4)
        columns = [[int(number) for number in part.split(",")] for part in (numbers, epochs, offsets)]
        cut = {epoch << 32 | number: offset for number, epoch, offset in zip(*columns, strict=True)}
    except (ValueError, binascii.Error, zlib.error) as error:
        raise ValueError(f"it is not the text of a stream cut ({error})") from None
    if version != _VERSION or "/" not in stream:
        raise ValueError(f"a stream cut of version {version} for '{stream}' is not known")
    if min(cut) < 0 or min(cut.values()) < 0:
        raise ValueError("it is not the text of a stream cut (negative numbers)")
    return stream, cut


def cut_text(stream: str, cut: Mapping[int, int]) -> str:
    """Returns the text of ``cut``: the same for equal cuts. Compare parsed cuts with others' texts, never the texts."""
    segments = sorted(cut)
    columns = ([number_of(s) for s in segments], [epoch_of(s) for s in segments], [cut[s] for s in segments])
    plain = ":".join([_VERSION, stream, *(",".join(map(str, column)) for column in columns)])
    return base64.b64encode(gzip.compress(plain.encode(), mtime=0)).decode()
