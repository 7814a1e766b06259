"""The table of ``docs/authors/flaws.md``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from flaws.catalogue import Flaw
from flaws.running import HANGS, MISSED, Outcome

__all__ = ["read", "write"]

_TABLE = Path(__file__).parents[2] / "docs" / "authors" / "flaws.md"
_SLOW_S = 10.0
_CASE, _SECONDS, _IN_CASE = 3, 4, 5


def read(path: Path = _TABLE) -> dict[str, Outcome]:
    """Returns the outcomes that the table has, by flaw."""
    rows = [line.strip("| ").split(" | ") for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return {
        row[0].strip("`"): Outcome(_case(row[_CASE]), float(row[_SECONDS]), float(row[_IN_CASE]))
        for row in rows
        if len(row) > _IN_CASE and row[0].startswith("`")
    }


def _case(cell: str) -> str:
    return next((one for one in (MISSED, HANGS) if cell.startswith(f"**{one}**")), cell.strip("`"))


def write(flaws: Iterable[Flaw], outcomes: Mapping[str, Outcome], path: Path = _TABLE) -> None:
    """Writes the flaws that have an outcome."""
    known = [flaw for flaw in flaws if flaw.name in outcomes]
    found = {flaw.name: outcomes[flaw.name] for flaw in known}
    missed = sum(one.case == MISSED for one in found.values())
    hang = sum(one.case == HANGS for one in found.values())
    caught = len(known) - missed - hang
    slow = sum(one.in_case > _SLOW_S for one in found.values())
    lines = [
        "# What the kit catches",
        "",
        "The conformance kit is tested with planted flaws: mistakes as authors make them.",
        "Each is one change to a connector that passes otherwise: one that `penstock new` writes, or an example.",
        "`scripts/flaws` plants them one by one, runs the kit without Spark until a case fails, and writes this table.",
        "It waits two seconds for rows that do not come, and ends a case after 20 (sources) or 60; you wait 8 and 120.",
        "Some rows are of a run of that case alone.",
        "",
        f"Of {len(known)} flaws, {caught} are caught ({100 * caught / max(1, len(known)):.0f} %), {missed} are missed, "
        f"and {hang} hang.",
        f"In {slow} of them, the case that fails takes longer than {_SLOW_S:.0f} seconds.",
        "Several cases may see the same flaw; the table names the first.",
        "",
        "| flaw | what is wrong | seen in | caught by | seconds until then | of these in the case |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for flaw in known:
        one = found[flaw.name]
        case = f"`{one.case}`"
        if one.case in (MISSED, HANGS):
            case = f"**{one.case}**" + (f": {flaw.reason}" if flaw.reason else "")
        cells = [f"`{flaw.name}`", flaw.what, flaw.seen, case, f"{one.seconds:.0f}", f"{one.in_case:.0f}"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    path.write_text("\n".join(lines) + "\n", "utf-8")
