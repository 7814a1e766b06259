"""Runs targets in a child process, and watches it: it may crash, hang, or be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fuzz.child import BOARD_BYTES, Board
from fuzz.target import Target

__all__ = ["ROOT", "Outcome", "again", "run", "watch"]

ROOT = Path(__file__).resolve().parents[2]
_LOOK_S = 0.2
#: Without the processor: an input that waits for something that never comes.
_SLEEPING_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What came of a target: the inputs tried, and the first that failed, with what went wrong."""

    target: str
    tried: int
    seconds: float
    problem: str = ""
    data: bytes = b""


def run(targets: Sequence[Target], *, seed: int, seconds: float = 0, count: int = 0) -> list[Outcome]:
    """Tries mutated inputs on each target for at least ``seconds``, and ``count`` of them, after what it always tries.

    A child that ends within a target is replaced for the targets after it.
    """
    found: list[Outcome] = []
    while len(found) < len(targets):
        left = [target.name for target in targets[len(found) :]]
        found += _run_child(targets[len(found) :], ["run", str(seed), str(seconds), str(count), *left])
    return found


def again(target: Target, path: Path) -> Outcome:
    """Tries one input, of a file."""
    return _run_child([target], ["again", target.name, str(path)])[0]


def _run_child(targets: Sequence[Target], arguments: list[str]) -> list[Outcome]:
    """Returns the outcomes up to the first target that ended the child."""
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as folder:
        board_path, output = Path(folder) / "board", Path(folder) / "output"
        board_path.write_bytes(bytes(BOARD_BYTES))
        board = Board(board_path)
        with output.open("wb") as out, (Path(folder) / "errors").open("w+b") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", "fuzz.child", str(board_path), *arguments],
                cwd=ROOT,
                stdout=out,
                stderr=errors,
                # Temporary files of the child go with it, even if it is killed.
                env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), "TMPDIR": folder},
            )
            why = watch(child, board, max(target.cpu_s for target in targets))
            problem = why or _end_of(child.returncode, errors)
        done = [_outcome(json.loads(line)) for line in output.read_text().splitlines()]
        if len(done) < len(targets):
            if not problem:
                problem = "the child ended early"
            _, tried, data = board.look()
            done.append(Outcome(targets[len(done)].name, tried, 0.0, problem, data))
        return done


def watch(child: subprocess.Popen[bytes], board: Board, slowest: float) -> str:
    """Waits for the child's end. Kills it, and says why, if an input takes more than ``slowest`` seconds of the
    processor.
    """
    seen, since, used = board.look()[:2], time.monotonic(), 0.0
    while child.poll() is None:
        time.sleep(_LOOK_S)
        now = board.look()[:2]
        cpu = _cpu_seconds(child.pid)
        if now != seen:
            seen, since, used = now, time.monotonic(), cpu
        elif now[1] and cpu - used > slowest:
            return _killed(child, f"an input takes more than {slowest:g} s of the processor")
        elif now[1] and cpu - used < 1 and time.monotonic() - since > _SLEEPING_S:
            return _killed(child, f"an input waits for more than {_SLEEPING_S:g} s")
    return ""


def _killed(child: subprocess.Popen[bytes], why: str) -> str:
    child.send_signal(signal.SIGKILL)
    child.wait()
    return why


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _end_of(status: int, errors: IO[bytes]) -> str:
    if not status:
        return ""
    errors.seek(0)
    said = errors.read().decode("utf-8", "replace")[-6000:]
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return f"the child ended with {how}\n{said}"


def _outcome(line: dict[str, object]) -> Outcome:
    return Outcome(
        str(line["target"]),
        int(str(line["tried"])),
        float(str(line.get("seconds", 0))),
        str(line.get("problem", "")),
        bytes.fromhex(str(line.get("input", ""))),
    )
