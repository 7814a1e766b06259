"""A case: something wrong, done on one surface, and what the last lines on the screen must say of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["CLEAR", "Case", "Outcome", "Surface", "last_lines", "verdict"]

#: ``python``: a piece of a script, with ``spark``; ``cli``: a command; ``script``: a command, by the script that is
#: installed; ``run``: ``penstock run``, with Spark.
Surface = Literal["python", "cli", "script", "run"]

CLEAR = "clear"
_A_CODE = r"\[PENSTOCK-[A-Z0-9]+-\d{3}\]"
#: What is no message for a person, wherever it stands in the last lines.
_NOISE = (r"^\s+at [\w.$]+\(", r"^\s+File \"", r"Traceback \(most recent", r"py4j\.", r"org\.apache\.spark\.", r"^\+- ")
#: Ends what Spark prints of a plan or a trace: a person has to search above it.
_LINES = 2
_LONGEST = 900


@dataclass(frozen=True, eq=False)
class Case:
    """``do`` is the script, the command's arguments, or the pipeline file. ``{tmp}`` is a directory of the case's own,
    ``{kafka}`` and the like are addresses of servers. ``says`` are patterns, all of which the last two lines match:
    what is wrong, where, and what to do. ``hidden`` must not be printed anywhere. ``code`` is ``None`` for a command
    line that typer refuses: it says how the command is called, and there is no page to look up. ``waits`` is true for a
    command that waits for a server.
    """

    name: str
    surface: Surface
    do: str | Sequence[str]
    says: Sequence[str]
    exit_code: int | None = None
    code: str | None = _A_CODE
    hidden: Sequence[str] = ()
    files: dict[str, str | bytes] = field(default_factory=dict)
    prepare: str = ""
    waits: bool = False


@dataclass(frozen=True)
class Outcome:
    """What was printed, and the exit code, ``None`` for a script's piece; ``seconds`` it took, 0 for a
    command that waited beside others.
    """

    out: str
    err: str
    exit_code: int | None
    seconds: float = 0.0


def last_lines(outcome: Outcome) -> str:
    """Returns the last two lines on the screen that are not empty."""
    printed = outcome.err if outcome.err.strip() else outcome.out
    return "\n".join([line for line in printed.splitlines() if line.strip()][-_LINES:])


def verdict(case: Case, outcome: Outcome) -> str:
    """Returns ``clear``, or ``buried``, or what is wrong."""
    everything, seen = outcome.out + outcome.err, last_lines(outcome)
    for secret in case.hidden:
        if secret in everything:
            return f"wrong: shows the secret {secret}"
    if case.exit_code is not None and outcome.exit_code != case.exit_code:
        return f"wrong: exit code {outcome.exit_code} instead of {case.exit_code}"
    if case.surface != "python" and "Traceback (most recent" in everything:
        return "wrong: a traceback"
    wanted = [*case.says, *([case.code] if case.code else [])]
    missing = [pattern for pattern in wanted if not re.search(pattern, seen, re.IGNORECASE)]
    if missing:
        buried = all(re.search(pattern, everything, re.IGNORECASE) for pattern in missing)
        return f"{'buried' if buried else 'wrong'}: not in the last lines: {missing}"
    last = seen.rpartition("\n")[2]
    for noise in _NOISE:
        # A line that stands above a single one of ours is Spark's.
        if re.search(noise, last):
            return f"buried: {noise} in the last lines"
    if len(seen) > _LONGEST:
        return f"wrong: {len(seen)} characters in the last lines"
    return CLEAR
