"""``penstock run`` as a process: from a file to its result, stopped by a signal, and failing in one sentence."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.spark

PENSTOCK = [sys.executable, "-c", "from penstock.cli import main; main()"]


def environment() -> dict[str, str]:
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "MASTER")
    return {name: text for name, text in os.environ.items() if name not in hidden}


def start(tmp_path: Path, pipeline: str, *flags: str) -> subprocess.Popen[str]:
    path = tmp_path / "pipeline.yaml"
    path.write_text(pipeline)
    return subprocess.Popen(
        [*PENSTOCK, "run", str(path), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        # Not the pipeline's directory: relative paths must not depend on where the command is called.
        cwd="/",
    )


def scrape_until(address: str, pattern: str) -> str:
    """Events of Spark come a moment after the line of a batch."""
    scraped, deadline = "", time.monotonic() + 60
    while not re.search(pattern, scraped) and time.monotonic() < deadline:
        time.sleep(0.05)
        with urllib.request.urlopen(address, timeout=10) as answer:
            scraped = answer.read().decode()
    assert re.search(pattern, scraped), scraped
    return scraped


@pytest.mark.exhaustive("a driver; test_the_first_commands_of_the_readme_lead_to_rows runs files to files as well")
def test_files_to_files(tmp_path):
    pytest.importorskip("penstock_filesystem")
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = "".join(f"{number * 100 + row},{row % 7}\n" for row in range(100))
        (tmp_path / f"in/{number}.csv").write_text(f"id,k\n{rows}")
    pipeline = """
        name: halves
        source:
          format: penstock.filesystem
          schema: id long, k int
          options: {path: in, format: csv, header: true, maxFilesPerTrigger: 2, s3.key: anna, s3.secret: hunter2}
        transform: {sql: SELECT id FROM source WHERE id % 2 = 0}
        sink:
          format: penstock.filesystem
          options: {path: out, format: parquet}
        trigger: availableNow
        checkpoint: ck
        spark: {spark.master: "local[2]"}
    """
    process = start(tmp_path, pipeline, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    *batches, last = [json.loads(line) for line in out.splitlines()]
    assert [batch["batch"] for batch in batches] == [0, 1]
    assert [batch["rows"] for batch in batches] == [200, 100]
    assert batches[-1]["metrics"]["rows_written"] == 150
    assert (last["state"], last["rows"], last["batches"]) == ("finished", 300, 2)
    assert last["commits"] >= 2
    tables = [pq.read_table(path) for path in (tmp_path / "out").rglob("*.parquet")]
    assert sorted(value for table in tables for value in table["id"].to_pylist()) == list(range(0, 300, 2))
    assert "hunter2" not in out + err
    assert "WARN" not in err
    assert "log level" not in err


def test_a_signal_stops_the_query(tmp_path):
    pipeline = """
        source: {format: rate, options: {rowsPerSecond: 50}}
        transform: {python: "job.py:tagged"}
        sink: {format: noop}
        trigger: {processingTime: 200ms}
        checkpoint: ck
        spark: {spark.master: "local[1]"}
    """
    (tmp_path / "job.py").write_text(
        "from pyspark.sql.functions import lit\n"
        "def tagged(spark, sources):\n"
        "    return sources['source'].withColumn('tag', lit(1))\n"
    )
    process = start(tmp_path, pipeline, "--plain", "--metrics", "0")
    assert process.stdout is not None
    address = next(found[0] for line in process.stdout if (found := re.search(r"http://127.0.0.1:\d+/metrics", line)))
    seen = [next(line for line in process.stdout if re.search(r"batch(es)? 1( to \d+)?:", line))]
    scraped = scrape_until(address, rf'penstock_batches_total{{query="{tmp_path.name}"}} [2-9]')
    assert f'penstock_query_running{{query="{tmp_path.name}"}} 1.0' in scraped
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "rows/s" in seen[0]
    assert "stopped after" in out.splitlines()[-1]
    assert "Traceback" not in err
    assert "Exception" not in err


FILES = """
    name: copy
    source:
      format: penstock.filesystem
      schema: id long
      options: {path: in, format: csv, maxFilesPerTrigger: 1}
    sink: {format: penstock.filesystem, options: {path: out, format: parquet, bucketAssigner: basePath}}
    trigger: {processingTime: 100ms}
    checkpoint: ck
    spark: {spark.master: "local[1]"}
"""


def put_files(tmp_path, numbers):
    (tmp_path / "in").mkdir(exist_ok=True)
    for number in numbers:
        (tmp_path / f"in/{number}.csv").write_text(f"{number}\n")


def command(*arguments: str) -> str:
    done = subprocess.run([*PENSTOCK, *arguments], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def visible(tmp_path):
    return sorted(row["id"] for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist())


@pytest.mark.exhaustive("two drivers; test_a_failed_run_names_what_it_leaves_open is the witness")
@pytest.mark.budget(60)
def test_what_a_run_leaves_open_is_published_or_named(tmp_path):
    """Stopped, it publishes; killed, it leaves what 'inspect' names and 'finish' publishes. Counts are of the run."""
    pytest.importorskip("penstock_filesystem")
    put_files(tmp_path, range(3))
    process = start(tmp_path, FILES, "--json")
    assert process.stdout is not None
    next(line for line in process.stdout if json.loads(line)["batch"] == 2)
    process.send_signal(signal.SIGINT)
    last = json.loads(process.communicate(timeout=200)[0].splitlines()[-1])
    assert process.returncode == 128 + signal.SIGINT
    counts = {"state": "stopped", "rows": 3, "batches": 3, "commits": 3, "open": []}
    assert {name: last[name] for name in counts} == counts
    assert visible(tmp_path) == [0, 1, 2]

    put_files(tmp_path, range(3, 5))
    process = start(tmp_path, FILES, "--json")
    assert process.stdout is not None
    seen = json.loads(next(line for line in process.stdout if json.loads(line)["batch"] == 4))
    process.kill()
    process.communicate(timeout=200)
    assert seen["commits"] == 2 and visible(tmp_path) == [0, 1, 2]
    checkpoint = str(tmp_path / "ck")
    words = "hold committed rows that no reader sees yet: restart the query, or run: penstock finish"
    assert words in command("inspect", checkpoint).replace("holds", "hold")
    published = command("finish", checkpoint)
    assert "published 1 piece" in published and "waiting" not in published
    assert visible(tmp_path) == [0, 1, 2, 3, 4]
    assert words not in command("inspect", checkpoint)


@pytest.mark.budget(60)
def test_a_failed_run_names_what_it_leaves_open(tmp_path):
    pytest.importorskip("penstock_filesystem")
    put_files(tmp_path, range(1))
    sql = "SELECT CASE WHEN id = 1 THEN raise_error('no good') ELSE id END AS id FROM source"
    process = start(tmp_path, f'{FILES}    transform: {{sql: "{sql}"}}\n', "--json")
    assert process.stdout is not None
    next(line for line in process.stdout if json.loads(line)["batch"] == 0)
    put_files(tmp_path, [1])
    out, err = process.communicate(timeout=200)
    last = json.loads(out.splitlines()[-1])
    assert process.returncode == 1 and last["state"] == "failed" and visible(tmp_path) == []
    checkpoint = str(tmp_path / "ck")
    opened = {"checkpoint": checkpoint, "decisions": 0, "pieces": 1, "command": f"penstock finish {checkpoint}"}
    assert last["open"] == [opened]
    assert "a query has ended" not in err
    command("finish", checkpoint)
    assert visible(tmp_path) == [0]


def test_a_failure_is_told_in_one_sentence(tmp_path):
    pipeline = """
        source: {format: rate, options: {rowsPerSecond: 50}}
        transform: {python: "job.py:broken"}
        sink: {format: noop}
        checkpoint: ck
        spark: {spark.master: "local[1]", my.secret: hunter2}
    """
    (tmp_path / "job.py").write_text(
        "from pyspark.sql.functions import udf\n"
        "from penstock.errors import BadDataError\n"
        "@udf('long', useArrow=False)\n"
        "def fail(value):\n"
        "    raise BadDataError(f'row {value} is bad, hunter2 saw it')\n"
        "def broken(spark, sources):\n"
        "    return sources['source'].select(fail('value').alias('v'))\n"
    )
    process = start(tmp_path, pipeline, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err == "penstock: row 0 is bad, *** saw it [PENSTOCK-CORE-002]\n"
    last = json.loads(out.splitlines()[-1])
    assert (last["state"], last["error"]) == ("failed", "row 0 is bad, *** saw it [PENSTOCK-CORE-002]")
