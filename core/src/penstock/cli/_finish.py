"""What a person does to a checkpoint: ``penstock finish``, ``resolve``, ``restore-offsets`` and ``adopt``."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import checkpoint as checkpoints
from penstock._commit import BatchPendingError, GaveWayError
from penstock.cli._damage import say_damage
from penstock.cli._draw import plural
from penstock.cli._screen import say, say_json
from penstock.errors import BadConfigurationError

__all__ = ["adopt_checkpoint", "finish_checkpoint", "resolve_batch", "restore_offsets"]

DONE, GAVE_WAY, PENDING = 0, 3, 4


def finish_checkpoint(checkpoint: str, options: Mapping[str, str], *, sink: str, take_over: bool, as_json: bool) -> int:
    """The command. Returns the exit code: 0, 1 (other files of the checkpoint are damaged), 3 (gave way to a batch, try
    again) or 4 (a batch is decided and pending).

    Raises what :func:`penstock.checkpoint.finish` raises otherwise.
    """
    try:
        made = (checkpoints.take_over if take_over else checkpoints.finish)(checkpoint, options, sink=sink)
    except GaveWayError as error:
        left = checkpoints.open_pieces(checkpoint, options)
        if as_json:
            say_json({"checkpoint": checkpoint, "gave_way": str(error), "open_pieces": left})
        pieces = "" if left is None else f"; {plural(left, 'open piece')} left"
        say(f"penstock: {error}{pieces}", error=True)
        return PENDING if isinstance(error, BatchPendingError) else GAVE_WAY
    published = [text for one in made for text in one.published]
    if as_json:
        say_json({"checkpoint": checkpoint, "decisions": len(made), "published": published})
    elif not published:
        is_query = checkpoints.open_pieces(checkpoint, options) is not None
        say(f"{checkpoint}: nothing was open{'' if is_query else ' (no batch write; and it is no checkpoint)'}")
    else:
        say(f"{checkpoint}: published {plural(len(published), 'piece')} in {plural(len(made), 'decision')}")
        for text in published:
            say(f"  {text}")
    return say_damage(checkpoint, options) or DONE


def resolve_batch(
    checkpoint: str, options: Mapping[str, str], *, sink: str, drop_lost: bool, write_all_again: bool
) -> int:
    """The command. Raises BadConfigurationError unless one of the two ways is chosen."""
    if drop_lost == write_all_again:
        raise BadConfigurationError(
            "choose one: --drop-lost (rows that are lost stay missing) or --write-all-again (the next start writes the "
            "whole batch, and rows that are published are duplicated)"
        )
    link = checkpoints.resolve(checkpoint, options, write_all_again=write_all_again, sink=sink)
    what = (
        "is given up, and written again by the next start" if write_all_again else "is published, except what is lost"
    )
    say(f"{checkpoint}: the pending batch {what} (last decided: batch {link.batch})")
    return DONE


def restore_offsets(checkpoint: str, options: Mapping[str, str]) -> int:
    """The command."""
    batch = checkpoints.restore_offsets(checkpoint, options)
    say(f"{checkpoint}: offsets/{batch.number} is again what was decided; start the query")
    return DONE


def adopt_checkpoint(checkpoint: str, options: Mapping[str, str], *, moved: bool, copy: bool) -> int:
    """The command. Raises BadConfigurationError unless one of the two ways is chosen."""
    if moved == copy:
        raise BadConfigurationError(
            "choose one: --moved (the checkpoint it was made from is gone) or --copy (both continue, as separate "
            "queries)"
        )
    checkpoints.adopt(checkpoint, options, is_copy=copy)
    say(f"{checkpoint}: at home here from now on")
    return DONE
