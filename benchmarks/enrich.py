"""``scripts/bench enrich``: penstock.enrich_async against a service that takes 20 ms, beside what its capacity allows.

The service is a process of its own, asked through one connection with numbered requests. One task (``local[1]``), in
which rows are made by Spark and thrown away behind. The bound is capacity / latency.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock
from benchmarks.measuring import OURS, THEIRS, Measurement, Results, as_table
from penstock.enrichment import AsyncFunction

ROOT = Path(__file__).resolve().parents[1]
LATENCY_S = 0.02
CAPACITIES = (20, 100, 400)
PACKAGES = ("pyspark", "pyarrow", "penstock")
SERVICE = """
import asyncio, sys
async def answer(number, writer):
    await asyncio.sleep(float(sys.argv[1]))
    writer.write(number)
async def serve(reader, writer):
    waiting = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(line, writer))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class Ask(AsyncFunction):
    """Sends the row's number, and gets it back 20 ms later."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> None:
        """One connection, and who waits for an answer on it."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.answers = asyncio.create_task(self._answers())

    async def close(self) -> None:
        """The connection ends."""
        self.answers.cancel()
        self.writer.close()

    async def _answers(self) -> None:
        while line := await self.reader.readline():
            self.waiting.pop(int(line)).set_result(None)

    async def invoke(self, row: Any) -> Any:
        """A request of its own."""
        number = row["id"]
        self.waiting[number] = answered = asyncio.get_running_loop().create_future()
        self.writer.write(b"%d\n" % number)
        await answered
        return {"answer": number}


def rate(spark: SparkSession, port: int, rows: int, capacity: int, ordered: bool) -> float:
    """Rows a second, start of the job included."""
    enriched = penstock.enrich_async(
        spark.range(0, rows, 1, 1), Ask(port), "answer long", capacity=capacity, ordered=ordered
    )
    started = time.perf_counter()
    enriched.write.format("noop").mode("overwrite").save()
    return rows / (time.perf_counter() - started)


def bare_rate(port: int, rows: int, capacity: int) -> float:
    """The same calls from a program that does nothing else: ``capacity`` coroutines, each one call after the other."""

    async def run() -> float:
        ask, numbers = Ask(port), iter(range(rows))
        await ask.open()

        async def work() -> None:
            for number in numbers:
                await ask.invoke({"id": number})

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(capacity)))
        seconds = time.perf_counter() - started
        await ask.close()
        return rows / seconds

    return asyncio.run(run())


def main() -> int:
    """Every capacity, ordered and not."""
    parser = argparse.ArgumentParser(prog="scripts/bench enrich", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds for each case, one repetition")
    arguments = parser.parse_args()
    seconds, repetitions = (3, 1) if arguments.quick else (15, 3)
    name = ".cache/bench-enrich-quick.json" if arguments.quick else "benchmarks/results/enrich.json"
    results = Results(ROOT / name, PACKAGES)
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(LATENCY_S)], stdout=subprocess.PIPE, text=True)
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        assert service.stdout is not None
        port = int(service.stdout.readline())
        rate(spark, port, 1000, 100, True)
        found = []
        for capacity in CAPACITIES:
            bound = capacity / LATENCY_S
            rates = {
                ordered: [rate(spark, port, int(bound * seconds), capacity, ordered) for _ in range(repetitions)]
                for ordered in (True, False)
            }
            bare = [bare_rate(port, int(bound * seconds), capacity) for _ in range(repetitions)]
            words = f"capacity {capacity}"
            beside = {OURS: rates[True], THEIRS: bare}
            found.append(Measurement(f"{words}, compared with a program that only calls", "rows/s", "more", beside))
            beside = {OURS: rates[True], THEIRS: [bound]}
            found.append(Measurement(f"{words}, compared with capacity / latency", "rows/s", "more", beside))
            beside = {OURS: rates[True], THEIRS: rates[False]}
            found.append(Measurement(f"{words}, ordered compared with unordered", "rows/s", "more", beside))
        print(as_table(found).replace("Spark's own", "compared with"), flush=True)
        results.put("enrich", found)
    finally:
        spark.stop()
        service.terminate()
        service.wait(10)
    if not arguments.quick:
        results.write_page("enrich")
    return 0


if __name__ == "__main__":
    sys.exit(main())
