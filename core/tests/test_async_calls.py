"""Calls for rows without Spark: capacity, order, groups, time-outs, retries, failures, the cache, clients."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.enrichment import AsyncFunction, AsyncSpec, CallSettings, Enricher, _worker, as_function, settings_of
from penstock.enrichment._enricher import PENDING_BATCHES
from penstock.errors import BadConfigurationError, BadDataError, FatalError

RETURNS = pa.schema([("square", pa.int64())])


@pytest.fixture
def enrich():
    """``enrich(function, batches, **settings)``: all rows that come out; ``see`` gets the last of each batch."""

    def run(function, batches, *, returns=RETURNS, token=None, see=lambda row: None, **settings):
        made = CallSettings(**settings)
        spec = AsyncSpec(token or str(time.time_ns()), as_function(function, made.capacity), ("n",), returns, made)
        enricher, rows = Enricher(spec), []

        def take(done):
            for batch in done:
                rows.extend(batch.to_pylist())
                see(rows[-1])

        for numbers in batches:
            take(enricher.put(pa.record_batch({"n": pa.array(numbers, pa.int64()), "x": ["x"] * len(numbers)})))
        take(enricher.finish())
        return rows

    return run


class Service:
    """Counts how many calls are under way."""

    def __init__(self):
        self.now, self.most, self.calls = 0, 0, []

    async def __call__(self, row):
        assert list(row) == ["n"]
        self.calls.append(row["n"])
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return {"square": row["n"] ** 2}


def squares(numbers):
    return [{"n": n, "x": "x", "square": n * n} for n in numbers]


@pytest.mark.parametrize("ordered", [True, False])
def test_every_row_gets_its_result(enrich, ordered):
    batches = [list(range(n * 100, n * 100 + 100)) for n in range(10)]
    service = Service()
    found = enrich(service, batches, ordered=ordered, capacity=17)
    key = (lambda row: 0) if ordered else (lambda row: row["n"])
    assert sorted(found, key=key) == squares(range(1000))
    assert service.most == 17


def test_a_slow_batch_holds_up_only_ordered_results(enrich):
    batches, called, seen = [[0], [1], [2], [3]], [], []
    all_are_called, three_are_seen = threading.Event(), threading.Event()

    def slow_until(event):
        async def slow(row):
            called.append(row["n"])
            if len(called) == 4:
                all_are_called.set()
            if row["n"] == 0:
                assert await asyncio.to_thread(event.wait, 60)
            return {"square": row["n"] ** 2}

        return slow

    def see(row):
        seen.append(row)
        if len(seen) == 3:
            three_are_seen.set()

    assert [row["n"] for row in enrich(slow_until(three_are_seen), batches, ordered=False, see=see)][-1] == 0
    called.clear()
    all_are_called.clear()
    assert [row["n"] for row in enrich(slow_until(all_are_called), batches)] == [0, 1, 2, 3]


def test_memory_is_bounded_while_nothing_answers(monkeypatch):
    answered, waits = asyncio.Event(), threading.Event()
    result = Future.result

    def watched(future, timeout=None):
        waits.set()
        return result(future, timeout)

    async def stuck(row):
        await answered.wait()

    spec = AsyncSpec("stuck", as_function(stuck, 10), ("n",), RETURNS, CallSettings(capacity=10))
    enricher, given = Enricher(spec), []

    def feed():
        for number in range(20):
            given.append(number)
            list(enricher.put(pa.record_batch({"n": pa.array([number] * 50, pa.int64())})))

    feeding = threading.Thread(target=feed, daemon=True)
    monkeypatch.setattr(Future, "result", watched)
    feeding.start()
    assert waits.wait(60) and len(given) == PENDING_BATCHES
    _worker.worker().loop.call_soon_threadsafe(answered.set)
    feeding.join(60)
    assert len(given) == 20 and len(list(enricher.finish())) + 20 >= 20


def test_blocking_functions_run_in_threads(enrich):
    names, together = set(), threading.Barrier(4)

    def blocking(row):
        together.wait(60)
        names.add(threading.current_thread().name)
        return {"square": row["n"] ** 2}

    assert enrich(blocking, [range(8)], capacity=4) == squares(range(8))
    assert len(names) == 4


def test_groups(enrich):
    sizes = []

    async def grouped(rows):
        sizes.append(len(rows))
        return [{"square": row["n"] ** 2} for row in rows]

    assert enrich(grouped, [range(25), range(3)], group_size=10) == [*squares(range(25)), *squares(range(3))]
    assert sorted(sizes) == [3, 5, 10, 10]

    async def short(rows):
        return [None]

    with pytest.raises(BadDataError, match="no list of as many"):
        enrich(short, [range(5)], group_size=5)


def test_calls_are_tried_again_and_then_fail(enrich):
    calls = []

    async def flaky(row):
        calls.append(row["n"])
        if len([n for n in calls if n == row["n"]]) <= row["n"]:
            raise OSError(f"down for {row['n']}")
        return {"square": row["n"] ** 2}

    assert enrich(flaky, [range(3)], attempts=3, pause_s=0.001) == squares(range(3))
    assert sorted(calls) == [0, 1, 1, 2, 2, 2]
    with pytest.raises(FatalError, match=r"row with n='5'.*down for 5"):
        enrich(flaky, [[5]], attempts=3, pause_s=0.001)
    calls.clear()
    with pytest.raises(FatalError, match="down for 1"):
        enrich(flaky, [[1]], attempts=3, retry_on=(KeyError,))
    assert calls == [1]


@pytest.mark.parametrize("failures", ["fail", "null", "column"])
def test_what_a_failure_becomes(enrich, failures):
    async def odd(row):
        if row["n"] == 1:
            raise ValueError("no ones")
        if row["n"] == 2:
            await asyncio.sleep(60)
        return {"square": row["n"] ** 2}

    def run():
        return enrich(odd, [range(4)], failures=failures, failure_column="why", timeout_s=0.01)

    if failures == "fail":
        with pytest.raises(FatalError, match="no ones"):
            run()
        return
    rows = run()
    assert [row["square"] for row in rows] == [0, None, None, 9]
    if failures == "column":
        assert [row["why"] for row in rows] == [None, "ValueError: no ones", "TimeoutError: ", None]


def test_one_failure_ends_the_calls_that_are_under_way(enrich):
    ended, all_have_ended = [], threading.Event()

    async def call(row):
        if row["n"] == 3:
            raise ValueError("three")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(row["n"])
            if len(ended) == 5:
                all_have_ended.set()
            raise

    with pytest.raises(FatalError, match="three"):
        enrich(call, [range(6)])
    assert all_have_ended.wait(60) and sorted(ended) == [0, 1, 2, 4, 5]


def test_the_cache_asks_once_and_forgets(enrich):
    service = Service()
    assert enrich(service, [[1, 2, 1, 1], [2, 3]], cache_rows=10, token="cached") == squares([1, 2, 1, 1, 2, 3])
    assert sorted(service.calls) == [1, 2, 3]  # two batches call at a time: either may be the first
    enrich(service, [[3, 1]], cache_rows=10, token="cached")
    assert sorted(service.calls) == [1, 2, 3]
    # The least used goes when it is full, and what is too old; failures are not kept.
    service = Service()
    for row in [1, 2, 1, 3, 1, 2]:
        enrich(service, [[row]], cache_rows=2, token="full")
    assert service.calls == [1, 2, 3, 2]
    service = Service()
    for _ in range(2):
        enrich(service, [[1]], cache_rows=2, cache_for_s=1e-9, token="short")
    assert service.calls == [1, 1]
    tries = []

    async def fails_once(row):
        tries.append(1)
        if len(tries) == 1:
            raise OSError
        return {"square": 1}

    for _ in range(2):
        found = enrich(fails_once, [[1]], cache_rows=2, failures="null", token="again")
    assert found == squares([1]) and len(tries) == 2


class Client(AsyncFunction):
    events: ClassVar[list[str]] = []
    closed: ClassVar[threading.Event] = threading.Event()

    async def open(self):
        self.events.append("open")

    async def invoke(self, row):
        return {"square": row["n"] ** 2}

    async def close(self):
        self.events.append("close")
        self.closed.set()


def test_clients_are_opened_once_for_a_worker_and_closed_when_idle(enrich, monkeypatch):
    Client.events.clear()
    Client.closed.clear()
    for _ in range(3):
        enrich(Client(), [range(10), range(5)], token="client")
    assert Client.events == ["open"]
    with monkeypatch.context() as patch:
        patch.setattr(_worker, "IDLE_S", 0.0)
        enrich(Client(), [range(3)], token="client")
        assert Client.closed.wait(60) and Client.events == ["open", "close"]
    enrich(Client(), [range(3)], token="client")
    assert Client.events == ["open", "close", "open"]


def test_clients_are_closed_when_the_process_ends(enrich):
    class Ending(Client):
        events: ClassVar[list[str]] = []

    enrich(Ending(), [range(3)], token="ending")
    _worker.worker().close_all()  # what atexit calls
    assert Ending.events == ["open", "close"]


def test_a_client_that_does_not_open_fails_every_batch(enrich):
    class Broken(Client):
        async def open(self):
            raise OSError("no route")

    with pytest.raises(OSError, match="no route"):
        enrich(Broken(), [[1]])


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"squar": 1}, "'squar', which is not in returns"),
        (3, "returned int"),
        ({"square": "x"}, "row with n='7'.*'square' can't be bigint"),
    ],
)
def test_results_that_are_not_what_was_announced(enrich, result, words):
    async def wrong(row):
        return result if row["n"] == 7 else {"square": 1}

    with pytest.raises(BadDataError, match=words):
        enrich(wrong, [[1, 7, 2]])


def test_missing_columns_are_null(enrich):
    returns = pa.schema([("square", pa.int64()), ("note", pa.string())])

    async def some(row):
        return {"note": "n"} if row["n"] else None

    assert [(r["square"], r["note"]) for r in enrich(some, [[0, 1]], returns=returns)] == [(None, None), (None, "n")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"capacity": 0}, "'capacity': '0' is below the least value 1"),
        ({"failures": "skip"}, "'failures'"),
        ({"timeout": "0s"}, "'timeout': '0s' is below the least value 1"),
        ({"timeout": "soon"}, "'timeout': 'soon' is not a duration such as 10s"),
        ({"attempts": 0}, "'attempts'"),
        ({"attempts": 2, "pause": "10s", "longest_pause": "1s"}, "'longest_pause' is shorter than 'pause'"),
        ({"pause": "1s"}, "'pause' takes effect only with attempts other than 1"),
        ({"longest_pause": "1s"}, "'longest_pause' takes effect only with attempts other than 1"),
        ({"failure_column": "why", "failures": "null"}, "'failure_column' takes effect only with failures=column"),
        ({"cache_for": "1s"}, "'cache_for' takes effect only with cache_rows other than 0"),
    ],
)
def test_settings_are_checked(given, said):
    with pytest.raises(BadConfigurationError, match=said):
        settings_of(given)


@pytest.mark.parametrize(("pause", "longest_s"), [("1s", 10), ("30s", 30)])
def test_a_longer_first_pause_is_the_longest(pause, longest_s):
    assert settings_of({"attempts": 2, "pause": pause}).longest_pause_s == longest_s


def test_errors_that_are_tried_again_are_checked():
    with pytest.raises(BadConfigurationError, match="'retry_on' takes effect only with attempts other than 1"):
        settings_of({}, (OSError,))
    with pytest.raises(BadConfigurationError, match="'retry_on' is a tuple of classes of exceptions"):
        settings_of({"attempts": 2}, ("OSError",))
    assert settings_of({"attempts": 2}, (OSError,)).retry_on == (OSError,)


def test_the_defaults_of_both_are_the_same():
    assert settings_of({}) == CallSettings()


def test_what_can_not_be_called_is_refused():
    with pytest.raises(BadConfigurationError, match="can't be called"):
        as_function(3, 1)
