"""The process that tries inputs: it may crash, hang, or run out of memory; :mod:`fuzz.campaign` watches it.

``python -m fuzz.child BOARD MODE TARGET …`` tells what it does on a board, a file that both processes map: so the
input that ended it is still there.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import mmap
import os
import resource
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from fuzz.mutator import Mutator
from fuzz.target import Target

__all__ = ["BOARD_BYTES", "HEAD", "Board"]

#: The module whose targets are tried.
_REGISTRY = os.environ.get("PENSTOCK_FUZZ_REGISTRY", "fuzz.registry")

#: Number of the target, inputs tried, and the length of the one that is being tried, which follows.
HEAD = struct.Struct("<qqq")
BOARD_BYTES = 1 << 20


class Board:
    """A file that shows which input is being tried."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), BOARD_BYTES)

    def show(self, target: int, tried: int, data: bytes) -> None:
        """Says what is tried next."""
        self._map[HEAD.size : HEAD.size + len(data)] = data
        HEAD.pack_into(self._map, 0, target, tried, len(data))

    def look(self) -> tuple[int, int, bytes]:
        """Returns the target's number, how many inputs were tried before, and the input."""
        target, tried, length = HEAD.unpack_from(self._map, 0)
        return target, tried, bytes(self._map[HEAD.size : HEAD.size + length])


def fault(target: Target, data: bytes, *, is_refused: bool = False) -> str:
    """Returns what is wrong with the way the target takes an input; empty if nothing is."""
    try:
        target.run(data)
    except target.errors as error:
        text = str(error)
        if target.where not in text:
            return f"{type(error).__name__} does not say where ({target.where}): {text[:300]}"
        return "" if len(text) < 2000 else f"{type(error).__name__} of {len(text)} characters"
    except BaseException:
        return traceback.format_exc(limit=-12)
    return "it is taken, and has to be refused" if is_refused else ""


def _targets() -> list[Target]:
    found: list[Target] = importlib.import_module(_REGISTRY).TARGETS
    return found


def _limit(target: Target) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (target.memory_mb << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def _no_limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _try(board: Board, names: list[str], seed: int, seconds: float, count: int) -> None:
    """Prints a line of JSON for each target: how many inputs were tried, and the first that failed."""
    for number, target in enumerate(_targets()):
        if target.name not in names:
            continue
        began, tried, used_cpu = time.monotonic(), 0, time.process_time()
        seeds = list(target.seeds())
        for data in seeds:  # so that what is imported late does not count as memory of an input
            board.show(number, tried, data)
            fault(target, data)
        refused = target.refused()
        whole = [*seeds, *target.inputs(), *refused]
        mutator = Mutator(seed, seeds)
        failed: tuple[bytes, str] | None = None
        until = time.monotonic() + seconds
        _limit(target)
        while tried < len(whole) + count or time.monotonic() < until:
            data = whole[tried] if tried < len(whole) else target.repair(mutator.next())
            board.show(number, tried, data)
            problem = fault(target, data, is_refused=len(whole) - len(refused) <= tried < len(whole))
            tried += 1
            if problem:
                failed = (data, problem)
                break
        board.show(number, tried, b"")
        _no_limit()
        done: dict[str, Any] = {"target": target.name, "tried": tried, "seconds": time.monotonic() - began}
        done["cpu"] = time.process_time() - used_cpu
        if failed is not None:
            done |= {"input": failed[0].hex(), "problem": failed[1]}
        print(json.dumps(done), flush=True)


def main(arguments: list[str]) -> None:
    """``BOARD run SEED SECONDS COUNT TARGET …`` (at least so long and so many), or ``BOARD again TARGET FILE``."""
    faulthandler.enable()
    board = Board(Path(arguments[0]))
    if arguments[1] == "again":
        number, target = next((n, one) for n, one in enumerate(_targets()) if one.name == arguments[2])
        data = Path(arguments[3]).read_bytes()
        for seed in target.seeds():
            fault(target, seed)
        board.show(number, 0, data)
        _limit(target)
        print(json.dumps({"target": target.name, "tried": 1, "problem": fault(target, data), "input": data.hex()}))
        return
    _try(board, arguments[5:], int(arguments[2]), float(arguments[3]), int(arguments[4]))


if __name__ == "__main__":
    main(sys.argv[1:])
