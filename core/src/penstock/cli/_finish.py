"""``penstock finish CHECKPOINT``."""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.cli._draw import plural
from penstock.finishing import finish, open_stored_query

__all__ = ["finish_checkpoint"]


def finish_checkpoint(checkpoint: str, options: Mapping[str, str], *, as_json: bool) -> int:
    """The command. Raises what :func:`penstock.finishing.finish` raises."""
    made = finish(checkpoint, options)
    sink = open_stored_query(checkpoint, options).sink
    published = [
        sink.describe_committable(sink.committable_serializer.unpack(stored))
        for decision in made
        for output in decision.outputs
        for stored in output.committables
    ]
    if as_json:
        print(json.dumps({"checkpoint": checkpoint, "decisions": len(made), "published": published}, indent=2))
    elif not made:
        print(f"{checkpoint}: nothing was open")
    else:
        print(f"{checkpoint}: published {plural(len(published), 'piece')} in {plural(len(made), 'decision')}")
        for text in published:
            print(f"  {text}")
    return 0
