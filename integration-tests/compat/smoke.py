"""The smoke test: streams between systems at least once, and exactly once with one SIGKILL and a restart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.driver import Driver
from matrix.streams import Round, Stream
from matrix.systems import System

__all__ = ["AT_LEAST_ONCE", "EXACTLY_ONCE", "READ", "WORKS", "Result", "smoke"]

#: Kinds of results.
READ, AT_LEAST_ONCE, EXACTLY_ONCE = "read", "at least once", "exactly once"
WORKS = "works"
ROWS = 300
_NO_KILL = "the driver ended before a second batch was decided"
_QUERY_FAILED = re.compile(r"^[\w-]+ failed: ", re.MULTILINE)
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b.*: ")
#: The second batch of a query is decided, and none of it is published: the next run has to complete it.
DECIDED = "penstock._commit._two_phase:TwoPhaseCommit._decide:after:2:_context.query_id"
SECONDS = 300.0


@dataclass(frozen=True)
class Result:
    """What came of one system: ``words`` is :data:`WORKS`, or what went wrong in one line."""

    system: str
    kind: str
    words: str


def smoke(pairs: Sequence[tuple[System, System]], folder: Path, start: Callable[..., Driver]) -> Iterator[Result]:
    """Runs a stream for each pair, all in one driver, and yields what was found of each system.

    ``start`` starts a driver (:class:`harness.driver.Driver`) that runs in ``folder``.
    """
    plain = [Stream.between(source, sink, "at-least-once") for source, sink in pairs]
    yield from _results(plain, _run_plain(plain, folder / "plain", start), AT_LEAST_ONCE)
    exact = [Stream.between(source, sink) for source, sink in pairs]
    yield from _results(exact, _run_killed(exact, folder / "killed", start), EXACTLY_ONCE)


def _run_plain(streams: Sequence[Stream], folder: Path, start: Callable[..., Driver]) -> str:
    """Returns why the driver failed, or ""."""
    matrix = _round(streams, folder, start)
    matrix.feed(ROWS)
    driver = matrix.start()
    return "" if driver.wait(SECONDS) == 0 else driver.tail(200)


def _run_killed(streams: Sequence[Stream], folder: Path, start: Callable[..., Driver]) -> str:
    """Returns why a driver failed, or ""."""
    matrix = _round(streams, folder, start)
    matrix.feed(ROWS)
    victim = matrix.start(fault=DECIDED)
    victim.wait(SECONDS)
    if not victim.was_hit():
        return f"{_NO_KILL}\n{victim.tail(200)}"
    matrix.feed(ROWS)
    driver = matrix.start()
    return "" if driver.wait(SECONDS) == 0 else driver.tail(200)


def _round(streams: Sequence[Stream], folder: Path, start: Callable[..., Driver]) -> Round:
    folder.mkdir()
    return Round(streams, folder, start)


def _results(streams: Sequence[Stream], said: str, kind: str) -> Iterator[Result]:
    problems = {stream.name: _problem(stream, said) for stream in streams}
    for stream in streams:
        if kind == AT_LEAST_ONCE and stream.source.name != "files":
            yield Result(stream.source.name, READ, problems[stream.name] or WORKS)
        if kind == EXACTLY_ONCE or "at-least-once" in stream.sink.deliveries:
            yield Result(stream.sink.name, kind, problems[stream.name] or WORKS)


def _problem(stream: Stream, said: str) -> str:
    """Returns what is wrong with a stream: the words of its query, or the difference in rows."""
    named = [line for line in said.splitlines() if line.startswith(f"{stream.name} failed: ")]
    if named:
        return named[-1].partition(": ")[2]
    if said.startswith(_NO_KILL):
        return _NO_KILL
    if said and not _QUERY_FAILED.search(said):
        # A driver that failed as a whole says why in the last line that names an error. Complete rows don't excuse it.
        errors = [line.strip() for line in said.splitlines() if _ERROR.match(line)]
        return f"the job failed: {errors[-1] if errors else said.splitlines()[-1]}"
    return stream.problems()
