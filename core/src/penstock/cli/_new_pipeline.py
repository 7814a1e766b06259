"""``penstock new pipeline``: a pipeline file and some input, to run as they are and to change."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.cli._screen import Screen
from penstock.errors import BadConfigurationError

__all__ = ["new_pipeline"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PIPELINE = """\
# Run it with: penstock run pipeline.yaml
name: NAME
source:
  format: penstock.filesystem
  schema: id long, at timestamp, item string, amount int, price double
  options: {path: in/, format: csv, header: true, maxFilesPerTrigger: 1}
transform:
  sql: SELECT id, at, item, amount * price AS total FROM source
sink:
  format: penstock.filesystem
  options: {path: out/, format: json, bucketAssigner: basePath}
trigger: availableNow   # reads what is there, and ends; without it, the stream runs on
checkpoint: ck/         # how far the stream is: the next run reads only what is new
"""
_HEADER = "id,at,item,amount,price\n"
_FILES = {
    "in/monday.csv": "1,2026-01-05T09:12:00Z,bolt,40,0.25\n2,2026-01-05T09:30:00Z,nut,100,0.125\n",
    "in/tuesday.csv": "3,2026-01-06T08:01:00Z,washer,60,0.05\n4,2026-01-06T11:45:00Z,bolt,10,0.25\n",
    "in/wednesday.csv": "5,2026-01-07T16:20:00Z,wrench,1,12.5\n",
}


def new_pipeline(name: str, directory: Path) -> int:
    """Writes the folder ``name`` below ``directory``. Raises BadConfigurationError for a bad name or what is there."""
    if not _NAME.fullmatch(name):
        raise BadConfigurationError(f"'{name}' is not a name for a pipeline: write letters, digits, '-' and '_'")
    project = directory / name
    if project.exists():
        raise BadConfigurationError(f"{project} is there already")
    made = {"pipeline.yaml": _PIPELINE.replace("NAME", name)}
    made |= {path: _HEADER + rows for path, rows in _FILES.items()}
    for path, text in made.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text, "utf-8")
    console = Screen()
    for path in sorted(made):
        console.print(f"[green]✓[/] {name}/{path}")
    console.print(f"\nNext:\n  cd {project}\n  penstock run pipeline.yaml", soft_wrap=True, markup=False)
    return 0
