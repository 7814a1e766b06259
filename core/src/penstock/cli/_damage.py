"""Damaged files of a checkpoint, said last by the commands that one looks into it with."""

from __future__ import annotations

from collections.abc import Mapping

from penstock._causes import explain
from penstock.checkpoint import damage_of
from penstock.cli._screen import say
from penstock.storage import open_storage

__all__ = ["say_damage"]


def say_damage(checkpoint: str, options: Mapping[str, str]) -> int:
    """Says which files can't be read, and how to repair them. Returns the exit code: 0, or 1 if there are some."""
    damage = damage_of(*open_storage(checkpoint, options))
    for one in damage:
        say(f"penstock: {explain(one)}", error=True)
    return 1 if damage else 0
