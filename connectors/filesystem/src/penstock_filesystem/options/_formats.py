"""The options that say which format files have, of the source and of the sink alike."""

from __future__ import annotations

from typing import Any

from penstock.options import Option, unless
from penstock_filesystem.formats.third_party import installed_formats

__all__ = ["format_options"]


def format_options(doc: str, ours: tuple[str, ...], **more: Any) -> tuple[Option, Option]:
    """Returns the option ``format``, which takes ``ours`` and third-party formats, and the one for their options."""
    return (
        Option(
            "format",
            f"{doc}; or a third-party format, by its name or as module:Class",
            kind="choice",
            choices=ours,
            plugins=installed_formats,
            **more,
        ),
        Option(
            "format.*",
            "Options of a third-party format",
            needs=(unless("format", *ours),),
            secret=True,  # only the format knows which of them are
        ),
    )
