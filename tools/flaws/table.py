"""The table of ``core/tests/flaws/README.md``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from flaws.catalogue import CATALOGUE, Flaw
from flaws.running import HANGS, MISSED, Outcome

__all__ = ["read", "write"]

_TABLE = CATALOGUE / "README.md"
_SLOW_S = 10.0


def read(path: Path = _TABLE) -> dict[str, Outcome]:
    """Returns the outcomes that the table has, by flaw."""
    rows = [line.strip("| ").split(" | ") for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return {
        row[0].strip("`"): Outcome(row[3].strip("`*"), float(row[4]), float(row[5]))
        for row in rows
        if len(row) == 6 and row[0].startswith("`")
    }


def write(flaws: Iterable[Flaw], outcomes: Mapping[str, Outcome], path: Path = _TABLE) -> None:
    """Writes the flaws that have an outcome."""
    known = [flaw for flaw in flaws if flaw.name in outcomes]
    found = {flaw.name: outcomes[flaw.name] for flaw in known}
    missed = sum(one.case == MISSED for one in found.values())
    hang = sum(one.case == HANGS for one in found.values())
    caught = len(known) - missed - hang
    slow = sum(one.in_case > _SLOW_S for one in found.values())
    lines = [
        "# Planted flaws",
        "",
        "Each is one mistake in a connector that passes the conformance kit otherwise.",
        "`scripts/flaws` plants them one by one, runs the kit without Spark, and writes this table.",
        "",
        f"Of {len(known)} flaws, {caught} are caught ({100 * caught / max(1, len(known)):.0f} %), {missed} are missed, "
        f"and {hang} hang.",
        f"In {slow} of them the case that fails takes longer than {_SLOW_S:.0f} seconds.",
        "",
        "| flaw | what is wrong | seen in | caught by | seconds | in that case |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for flaw in known:
        one = found[flaw.name]
        case = f"**{one.case}**" if one.case in (MISSED, HANGS) else f"`{one.case}`"
        cells = [f"`{flaw.name}`", flaw.what, flaw.seen, case, f"{one.seconds:.1f}", f"{one.in_case:.1f}"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    path.write_text("\n".join(lines) + "\n", "utf-8")
