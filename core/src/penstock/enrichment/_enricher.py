"""Arrow batches in, Arrow batches with more columns out; calls for several batches are in flight at a time."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.enrichment._function import AsyncFunction
from penstock.enrichment._settings import CallSettings
from penstock.enrichment._worker import OpenFunction, worker
from penstock.errors import BadDataError, FatalError
from penstock.serialization.ddl import shown_type

__all__ = ["AsyncSpec", "Enricher"]

#: Batches that have calls in flight or results that wait: this number of the engine's batches bounds memory.
PENDING_BATCHES = 4


@dataclass(frozen=True)
class AsyncSpec:
    """What is pickled to the tasks. ``keys`` are the columns that the function sees, ``returns`` those it adds."""

    token: str
    function: AsyncFunction
    keys: tuple[str, ...]
    returns: pa.Schema
    settings: CallSettings

    @property
    def added(self) -> pa.Schema:
        """The new columns, with that of failures."""
        if self.settings.failures != "column":
            return self.returns
        return self.returns.append(pa.field(self.settings.failure_column, pa.string()))


@dataclass(frozen=True)
class _Failure:
    error: Exception

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


class Enricher:
    """Of one task. :meth:`put` and :meth:`finish` give batches that are done: in order, or as they come."""

    def __init__(self, spec: AsyncSpec) -> None:
        self._spec = spec
        self._worker = worker()
        self._pending: list[Future[pa.RecordBatch]] = []
        self._slots = asyncio.Semaphore(spec.settings.capacity)

    def put(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Begins with the calls for ``batch``. Waits while :data:`PENDING_BATCHES` are in flight.

        Raises FatalError for a call that failed in the end (with ``failures="fail"``), BadDataError for results that
        are not what was announced.
        """
        self._pending.append(self._worker.submit(self._run(batch)))
        yield from self._done(PENDING_BATCHES - 1)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yields the rest."""
        yield from self._done(0)

    def _done(self, most_pending: int) -> Iterator[pa.RecordBatch]:
        try:
            while self._pending and (len(self._pending) > most_pending or self._next_is_done()):
                if not self._spec.settings.ordered:
                    wait(self._pending, return_when=FIRST_COMPLETED)
                    self._pending.sort(key=lambda one: not one.done())
                done = self._pending[0].result()
                del self._pending[0]
                yield done
        except BaseException:
            for one in self._pending:
                one.cancel()
            raise

    def _next_is_done(self) -> bool:
        return self._pending[0].done() if self._spec.settings.ordered else any(one.done() for one in self._pending)

    async def _run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        spec = self._spec
        rows = batch.select(list(spec.keys)).to_pylist()
        async with self._worker.using(spec.token, spec.function, spec.settings) as opened:
            results = await _Calls(spec, opened, self._slots).all(rows)
        return _with_columns(batch, spec, rows, results)


class _Calls:
    """Of one batch."""

    def __init__(self, spec: AsyncSpec, opened: OpenFunction, slots: asyncio.Semaphore) -> None:
        self._spec = spec
        self._settings = spec.settings
        self._opened = opened
        self._slots = slots
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = self._loop.create_future()

    async def all(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns a result for each row, or its failure. With ``failures="fail"`` the first failure ends all."""
        futures: list[asyncio.Future[Any]] = []
        group: list[tuple[Mapping[str, Any], Hashable, asyncio.Future[Any]]] = []
        try:
            for row in rows:  # a call for each is what the user asked for
                key = _key_of(row) if self._opened.cache is not None else None
                known = self._opened.cache.get(key, self._loop.time()) if self._opened.cache is not None else None
                if known is not None:
                    futures.append(known)
                    continue
                future: asyncio.Future[Any] = self._loop.create_future()
                futures.append(future)
                group.append((row, key, future))
                if self._opened.cache is not None:
                    self._opened.cache.put(key, future, self._loop.time())
                if len(group) == self._settings.group_size:
                    await self._begin(group)
                    group = []
            if group:
                await self._begin(group)
                group = []
            found = asyncio.gather(*futures)
            both: list[asyncio.Future[Any]] = [found, self._failed]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
            results = list(found.result())
        finally:
            for task in self._tasks:
                task.cancel()
            for _, key, future in group:
                self._end(key, future, _Failure(FatalError("given up")))
            if not self._failed.done():
                self._failed.cancel()
        if self._settings.failures == "fail":
            # Of a call that a batch before this one made for the same key.
            for row, result in zip(rows, results, strict=True):
                if isinstance(result, _Failure):
                    raise _told(self._spec, row, result.error)
        return results

    async def _begin(self, group: Sequence[tuple[Mapping[str, Any], Hashable, asyncio.Future[Any]]]) -> None:
        if self._failed.done():
            self._failed.result()
        await self._slots.acquire()
        task = self._loop.create_task(self._call(group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, group: Sequence[tuple[Mapping[str, Any], Hashable, asyncio.Future[Any]]]) -> None:
        rows = [row for row, _, _ in group]
        results: list[Any] = [_Failure(FatalError("given up"))] * len(rows)
        try:
            results = await self._attempts(rows)
        except Exception as error:
            results = [_Failure(error)] * len(rows)
            if self._settings.failures == "fail" and not self._failed.done():
                self._failed.set_exception(_told(self._spec, rows[0], error))
        finally:
            self._slots.release()
            for (_, key, future), result in zip(group, results, strict=True):
                self._end(key, future, result)

    def _end(self, key: Hashable, future: asyncio.Future[Any], result: Any) -> None:
        if isinstance(result, _Failure) and self._opened.cache is not None:
            self._opened.cache.drop(key, future)
        if not future.done():
            future.set_result(result)

    async def _attempts(self, rows: list[Mapping[str, Any]]) -> list[Any]:
        """Pauses between attempts grow and are random up to their length, so that calls don't come in waves."""
        settings = self._settings
        given: Any = rows if settings.group_size > 1 else rows[0]
        passing: tuple[type[Exception], ...] = (*settings.retry_on, asyncio.TimeoutError)
        for attempt in range(1, settings.attempts + 1):
            try:
                result = await _within(settings.timeout_s, self._opened.function.invoke(given))
                break
            except passing:
                if attempt == settings.attempts:
                    raise
            longest = min(settings.longest_pause_s, settings.pause_s * 2 ** (attempt - 1))
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - spreads the pauses of tasks
        if settings.group_size == 1:
            return [result]
        if not isinstance(result, Sequence) or len(result) != len(rows):
            raise BadDataError(f"for a group of {len(rows)} rows it gave no list of as many results")
        return list(result)


if sys.version_info >= (3, 11):

    async def _within(seconds: float, call: Awaitable[Any]) -> Any:
        """Returns the result of ``call``. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            return await call

else:
    # Makes a task of its own for each call, which costs more than most of the rest.
    async def _within(seconds: float, call: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(call, seconds)


def _key_of(row: Mapping[str, Any]) -> Hashable:
    key = tuple(row.values())
    try:
        hash(key)
    except TypeError:
        return repr(key)  # lists, maps and structs
    return key


def _told(spec: AsyncSpec, row: Mapping[str, Any], error: BaseException) -> FatalError:
    words = ", ".join(f"{name}={str(value)[:100]!r}" for name, value in row.items())
    reason = f"no answer in {spec.settings.timeout_s:g} s" if isinstance(error, asyncio.TimeoutError) else repr(error)
    kind = BadDataError if isinstance(error, BadDataError) else FatalError
    told = kind(f"{spec.function!r} failed for the row with {words}: {reason}")
    told.__cause__ = error
    return told


def _with_columns(
    batch: pa.RecordBatch, spec: AsyncSpec, rows: Sequence[Mapping[str, Any]], results: Sequence[Any]
) -> pa.RecordBatch:
    values: list[Any] = []
    for row, result in zip(rows, results, strict=True):
        if result is None or isinstance(result, _Failure):
            values.append(None)
        elif isinstance(result, Mapping):
            strange = next((name for name in result if name not in spec.returns.names), None)
            if strange is not None:
                raise _told(spec, row, BadDataError(f"it returned '{strange}', which is not in returns"))
            values.append(result)
        else:
            raise _told(spec, row, BadDataError(f"it returned {type(result).__name__}, no mapping of columns"))
    added: list[pa.Array] = []
    for field in spec.returns:
        column = [None if value is None else value.get(field.name) for value in values]
        try:
            added.append(pa.array(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            bad = next(n for n, value in enumerate(column) if not _fits(value, field.type))
            raise _told(
                spec, rows[bad], BadDataError(f"'{field.name}' can't be {shown_type(field.type)}: {error}")
            ) from error
    if spec.settings.failures == "column":
        reasons = [str(result) if isinstance(result, _Failure) else None for result in results]
        added.append(pa.array(reasons, pa.string()))
    schema = pa.schema([*batch.schema, *spec.added])
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True
