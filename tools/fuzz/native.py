"""The C parts under the sanitizers of addresses and of undefined behaviour: a driver in C for each (``native/``)."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from fuzz.campaign import ROOT, Outcome, watch
from fuzz.child import BOARD_BYTES, Board
from fuzz.decoders import cassandra, kafka

__all__ = ["DRIVERS", "again", "build", "run"]

_HERE = Path(__file__).parent / "native"
#: Name → where the C part is, and whole inputs for its driver, which has the name's middle.
DRIVERS: dict[str, tuple[Path, Callable[[], Sequence[bytes]]]] = {
    "native.kafka": (
        ROOT / "connectors/kafka/src/penstock_kafka/client/codec/native",
        # The compiled part reads no compressed batches.
        lambda: [one for one in kafka.batch_seeds() if not one[22] & 7],
    ),
    "native.cassandra": (
        ROOT / "connectors/cassandra/src/penstock_cassandra/native",
        lambda: [page[5:] for page in cassandra.page_seeds()],
    ),
}
_FLAGS = ("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-pthread", "-fno-omit-frame-pointer")
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_ENVIRONMENT = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=1024"
}
_ONE_INPUT_S = 10.0


@cache
def build(name: str) -> Path:
    """Returns the driver, compiled with sanitizers. Raises RuntimeError with what the compiler says."""
    sources, _ = DRIVERS[name]
    target = Path(tempfile.mkdtemp(prefix="penstock-fuzz-native-")) / "driver"
    files = [*sorted(sources.glob("*.c")), _HERE / "driver.c", _HERE / f"{name.partition('.')[2]}.c"]
    command = [
        os.environ.get("CC", "cc"),
        *_FLAGS,
        *_SANITIZERS,
        '-DPENSTOCK_SOURCE_HASH="fuzz"',
        f"-I{sources}",
        f"-I{_HERE}",
    ]
    done = subprocess.run([*command, "-o", str(target), *map(str, files)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} can't be built with sanitizers:\n{done.stderr}")
    return target


def run(name: str, *, seed: int, seconds: float = 0, count: int = 0) -> Outcome:
    """Tries mutated inputs for so many ``seconds``, or ``count`` of them."""
    driver = build(name)
    inputs = driver.with_name("inputs")
    inputs.write_bytes(b"".join(struct.pack("<I", len(one)) + one for one in DRIVERS[name][1]()))
    return _run(name, [str(driver), str(inputs), str(seed), str(seconds), str(count)])


def again(name: str, path: Path) -> Outcome:
    """Tries the input in a file."""
    return _run(name, [str(build(name)), str(path)])


def _run(name: str, command: list[str]) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as folder:
        board_path, errors = Path(folder) / "board", Path(folder) / "errors"
        board_path.write_bytes(bytes(BOARD_BYTES))
        board = Board(board_path)
        with errors.open("w+b") as said:
            child = subprocess.Popen(
                [command[0], str(board_path), *command[1:]], stderr=said, env={**os.environ, **_ENVIRONMENT}
            )
            problem = watch(child, board, _ONE_INPUT_S)
            if not problem and child.returncode:
                said.seek(0)
                problem = said.read().decode("utf-8", "replace")[:6000]
        _, tried, data = board.look()
    return Outcome(name, tried, time.monotonic() - began, problem, data if problem else b"")
