"""The code on the documentation's pages, to be run: in the session that tests share, or as a reader runs it.

A block that is run has ``<!-- run: name -->`` above it; a block of what it prints, ``<!-- output: name -->``. Other
code has a mark as well: ``<!-- run by: FILE -->`` for a test that takes it from the page, or ``<!-- not run: why -->``.
``python -m suite.pages`` lists code that no test runs.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "Block", "Code", "as_a_reader", "blocks", "code_on_pages", "in_the_session", "options_in"]

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_RUN = re.compile(r"<!-- run: (\w+) -->\n```python\n(.*?)```", re.DOTALL)
#: Code, with the comment above it; that of authors' pages has ``file=`` behind its language, and its own tests.
_CODE = re.compile(r"(?:^<!-- ([^>]*) -->\n)?^```(python|sql|yaml|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FORMAT = re.compile(r"\bpenstock\.(cassandra|filesystem|kafka|pravega)\b")
_OPTION = re.compile(r"""\.option\(\s*["']([\w.]+)["']""")
_SQL_OPTIONS = re.compile(r"OPTIONS\s*\(([^)]*)\)")
_SQL_OPTION = re.compile(r"(?:^|,)\s*`?([\w.]+)`?\s+'")
_OUTPUT = re.compile(r"<!-- output: (\w+) -->\n```\n(.*?)```", re.DOTALL)
_SERVER = re.compile(r"PENSTOCK_(\w+)_ADDRESS")
#: Spark resolves paths in its JVM, whose working directory is not the test's.
_RELATIVE = re.compile(r'"((?:in|out|ck)\w*/)')


@dataclass(frozen=True)
class Block:
    """Code with a name, and texts that it must print. ``server`` is what it needs running: ``kafka``."""

    name: str
    code: str
    outputs: tuple[str, ...]
    server: str | None

    def __str__(self) -> str:
        return self.name


def blocks(server: str | None = None) -> list[Block]:
    """Those of all pages that need ``server``, or none."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        outputs = _OUTPUT.findall(text)
        for name, code in _RUN.findall(text):
            needs = _SERVER.search(code)
            needed = needs.group(1).lower() if needs else None
            if needed == server:
                found.append(Block(name, code, tuple(out for of, out in outputs if of == name), needed))
    return found


@dataclass(frozen=True)
class Code:
    """A block of code where it stands, with the comment above it: ``run: name``, ``not run: why``, or ``""``."""

    page: Path
    line: int
    mark: str
    language: str
    text: str

    @property
    def is_run(self) -> bool:
        """Whether a test runs it."""
        return self.mark.startswith(("run: ", "run by: ", "login: ", "output: "))

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def code_on_pages() -> list[Code]:
    """Every block of Python, SQL, YAML and JSON, but for files that authors' pages write."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in _CODE.finditer(text):
            line = text.count("\n", 0, block.start(2)) + 1
            found.append(Code(page, line, block[1] or "", block[2], block[3]))
    return found


def options_in(code: Code) -> tuple[set[str], list[str]]:
    """Returns which connectors a block names, and which options it sets by ``.option(...)`` or in SQL."""
    names = _OPTION.findall(code.text)
    for inner in _SQL_OPTIONS.findall(code.text):
        names += _SQL_OPTION.findall(inner)
    return set(_FORMAT.findall(code.text)), names


def _prepare(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "notes.csv").write_text(
        "id,at,note\n1,2026-01-01T10:00:00,first\n2,2026-01-01T10:05:00,\n", "utf-8"
    )


def in_the_session(block: Block, folder: Path, set_variable: Callable[[str, str], None], address: str = "") -> None:
    """Runs the block here, where a session is there already: ``getOrCreate`` finds it."""
    _prepare(folder)
    if block.server:
        set_variable(f"PENSTOCK_{block.server.upper()}_ADDRESS", address)
    code = _RELATIVE.sub(lambda path: f'"{folder}/{path.group(1)}', block.code)
    printed, before = io.StringIO(), set(os.listdir(ROOT))
    with contextlib.redirect_stdout(printed):
        # As a job's: what it defines is pickled by value.
        exec(compile(code, f"{block.name}.py", "exec"), {"__name__": "__main__"})
    # Not what another process leaves there meanwhile, as a demo does.
    left = {name for name in set(os.listdir(ROOT)) - before if name in block.code}
    assert not left, f"begin paths with in/, out/ or ck/: the block has written {left} to the repository"
    _check(block, printed.getvalue())


def as_a_reader(block: Block, folder: Path, variables: Mapping[str, str] | None = None) -> None:
    """Runs the block as a job of its own, by whoever has not activated the environment whose Python they run."""
    _prepare(folder)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
    beside = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if p != beside)
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC", **(variables or {})}
    (folder / "job.py").write_text(block.code, "utf-8")
    command = [sys.executable, "job.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_quiet(done.stderr)
    _check(block, done.stdout)


def check_quiet(printed: str) -> None:
    """Raises AssertionError if a script that succeeded has left an error of Python, Java or what connects them."""
    for word in ("Py4J", "Traceback", "Exception"):
        assert word not in printed, printed[-3000:]


def _check(block: Block, printed: str) -> None:
    for expected in block.outputs:
        assert expected in printed, printed


def _main() -> None:
    for code in code_on_pages():
        if not code.is_run:
            print(f"{code} {code.language}: {code.mark or 'has no mark'}")


if __name__ == "__main__":
    _main()
