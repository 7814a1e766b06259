"""``penstock run`` with several sources, views and sinks, as a process: files to files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
pytest.importorskip("penstock_filesystem")

PENSTOCK = [sys.executable, "-c", "from penstock.cli import main; main()"]

SHOP = """\
name: shop
sources:
  orders:
    format: penstock.filesystem
    schema: id long, customer long, at timestamp
    options: {path: orders, format: csv, maxFilesPerTrigger: 1}
    watermark: {column: at, delay: 1 minute}
  customers:
    format: penstock.filesystem
    read: batch
    schema: customer long, name string
    options: {path: customers, format: csv}
views:
  named: SELECT id, name, at FROM orders LEFT JOIN customers USING (customer)
  odd: SELECT id, name FROM named WHERE id % 2 = 1
trigger: availableNow
checkpoint: ck
spark: {spark.master: "local[2]", spark.sql.session.timeZone: UTC}
"""
SINKS = """\
sinks:
  every-order:
    from: named
    format: penstock.filesystem
    options: {path: out/every, format: parquet, bucketAssigner: basePath}
  odd:
    from: odd
    format: penstock.filesystem
    options: {path: out/odd, format: parquet, bucketAssigner: basePath}
"""


def start(tmp_path: Path, pipeline: str, *flags: str) -> subprocess.Popen[str]:
    path = tmp_path / "pipeline.yaml"
    path.write_text(pipeline)
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "MASTER")
    environment = {name: text for name, text in os.environ.items() if name not in hidden}
    command = [*PENSTOCK, "run", str(path), *flags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env=environment, cwd="/")


def run(tmp_path: Path, pipeline: str, *, code: int = 0) -> tuple[list[dict], str]:
    """Returns the JSON lines, and what was said."""
    process = start(tmp_path, pipeline, "--json")
    out, err = process.communicate(timeout=200)
    assert process.returncode == code, err
    return [json.loads(line) for line in out.splitlines()], err


def add_orders(tmp_path: Path, number: int, *rows: tuple[int, int]) -> None:
    (tmp_path / "orders").mkdir(exist_ok=True)
    lines = [f"{one},{customer},2026-01-01 10:{number:02}:00\n" for one, customer in rows]
    (tmp_path / f"orders/{number}.csv").write_text("".join(lines))


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "customers").mkdir()
    (tmp_path / "customers/a.csv").write_text("1,Ann\n2,Bo\n")
    add_orders(tmp_path, 0, (1, 1), (2, 2))
    add_orders(tmp_path, 1, (3, 3), (4, 1))
    return tmp_path


def rows(directory: Path, *columns: str) -> Counter[tuple]:
    table = ds.dataset(directory, format="parquet").to_table(list(columns))
    return Counter(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def inspect(checkpoint: Path) -> dict:
    made = subprocess.run([*PENSTOCK, "inspect", str(checkpoint), "--json"], capture_output=True, text=True, check=True)
    return json.loads(made.stdout)


def test_two_sinks_of_one_query_are_committed_together(shop):
    (*batches, last), err = run(shop, SHOP + SINKS)
    assert [(batch["rows"], batch["commits"]) for batch in batches] == [(2, 1), (2, 2)]
    assert batches[-1]["metrics"]["rows_written"] == 6
    assert batches[-1]["metrics"]["rows_read"] == 8, "the orders are read once, the customers once for each batch"
    assert "query" not in batches[0] and (last["state"], last["commits"]) == ("finished", 2)
    assert "penstock" not in err
    assert rows(shop / "out/every", "id", "name") == Counter([(1, "Ann"), (2, "Bo"), (3, None), (4, "Ann")])
    assert rows(shop / "out/odd", "id", "name") == Counter([(1, "Ann"), (3, None)])
    (sink,) = inspect(shop / "ck")["sinks"]
    assert (sink["name"], sink["sink"]) == ("all", "group of every-order, odd")


@pytest.mark.exhaustive("three drivers; test_two_sinks_of_one_query_are_committed_together is the witness")
def test_two_sinks_continue_and_stay_together(shop):
    run(shop, SHOP + SINKS)
    (shop / "customers/b.csv").write_text("3,Cy\n")
    add_orders(shop, 2, (5, 3))
    run(shop, SHOP + SINKS)
    assert rows(shop / "out/odd", "id", "name")[5, "Cy"] == 1, "a table is read again for each batch"
    assert sum(rows(shop / "out/every", "id").values()) == 5
    _, err = run(shop, SHOP + SINKS + "commit: each\n", code=2)
    assert err == (
        f"penstock: {shop}/ck was written with 'commit: together', and the file has 'commit: each': write that again, "
        "or name another checkpoint, which reads from the beginning [PENSTOCK-CORE-070]\n"
    )


@pytest.mark.exhaustive("a driver of its own; test_two_sinks_of_one_query_are_committed_together is the witness")
def test_each_sink_by_itself(shop):
    """With a view by Python, and a sink of Spark's."""
    (shop / "job.py").write_text("def even(spark, views):\n    return views['named'].where('id % 2 = 0')\n")
    text = SHOP.replace("odd: SELECT id, name FROM named WHERE id % 2 = 1", "even: {python: 'job.py:even'}")
    sinks = SINKS.replace("from: odd", "from: even").replace("path: out/odd", "path: out/even")
    sinks += "  spark: {from: named, format: json, options: {path: out/json}}\ncommit: each\n"
    (*batches, last), err = run(shop, text + sinks)
    assert "json is not a sink of Penstock: a batch that is run again is written to it again" in err
    assert len(batches) == 2 and last["state"] == "finished"
    assert rows(shop / "out/every", "id") == Counter([(1,), (2,), (3,), (4,)])
    assert rows(shop / "out/even", "id", "name") == Counter([(2, "Bo"), (4, "Ann")])
    assert sum(len(path.read_text().splitlines()) for path in (shop / "out/json").glob("*.json")) == 4
    assert [sink["name"] for sink in inspect(shop / "ck")["sinks"]] == ["every-order", "odd"]


COUNTS = """\
  counts: SELECT window.start AS minute, count(*) AS n FROM orders GROUP BY window(at, '1 minute')
sinks:
  every:
    from: named
    format: penstock.filesystem
    options: {path: out/every, format: parquet}
  counts:
    from: counts
    format: penstock.filesystem
    options: {path: out/counts, format: parquet, bucketAssigner: basePath}
"""


@pytest.mark.exhaustive("a driver of its own; sinks of one query stay, and test_cli_run.py has single queries")
def test_a_query_for_each_sink(shop):
    """Rows and windows of one source; together they are refused."""
    text = SHOP.replace("  odd: SELECT id, name FROM named WHERE id % 2 = 1\n", COUNTS)
    _, err = run(shop, text, code=2)
    assert err == (
        "penstock: sinks 'every' and 'counts' take from different streams, 'named' and 'counts', and one query can't "
        "feed both: set 'commit: separate', or take from views that follow row by row from one view "
        "[PENSTOCK-CORE-070]\n"
    )
    for number in range(2, 5):
        add_orders(shop, number, (number, 1))
    (*batches, last), err = run(shop, text + "commit: separate\n")
    assert {batch["query"] for batch in batches} == {"every", "counts"} and last["state"] == "finished"
    assert sum(rows(shop / "out/every", "id").values()) == 7, "what is open is published"
    counted = {minute.minute: n for minute, n in rows(shop / "out/counts", "minute", "n")}
    assert counted == {0: 2, 1: 2, 2: 1}  # the last minutes may still get rows
    for sink in ("every", "counts"):
        assert inspect(shop / "ck" / sink)["sink"] == "penstock.filesystem"
    _, err = run(shop, text.replace("from: counts", "from: named") + "commit: together\n", code=2)
    assert "was written with 'commit: separate', and the file has 'commit: together'" in err


@pytest.mark.exhaustive("a driver of its own; test_cli_run.py has the same of one query")
def test_one_query_that_fails_ends_all(shop):
    text = SHOP.replace("trigger: availableNow", "trigger: {processingTime: 200ms}").replace(
        "id, name FROM named WHERE id % 2 = 1",
        "id, CAST(raise_error(concat('no good ', id)) AS STRING) AS e FROM named",
    )
    lines, err = run(shop, text + SINKS + "commit: separate\n", code=1)
    assert lines[-1]["state"] == "failed" and re.search("no good [12]", lines[-1]["error"])
    assert re.search("no good [12]", err.splitlines()[-1])


@pytest.mark.exhaustive("a driver of its own; test_cli_run.py has the same of one query")
def test_a_signal_stops_all_queries(shop):
    text = SHOP.replace("trigger: availableNow", "trigger: {processingTime: 200ms}")
    process = start(shop, text + SINKS + "commit: separate\n", "--plain", "--metrics", "0")
    assert process.stdout is not None
    waited_for = {"every-order", "odd"}
    for line in process.stdout:
        # Batches that end within a few seconds share a line.
        waited_for = {name for name in waited_for if not re.search(rf"{name}: batch(es \d+ to)? 1:", line)}
        if not waited_for:
            break
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "shop: stopped after" in out.splitlines()[-1] and "Exception" not in err
    assert sum(rows(shop / "out/odd", "id").values()) == 2, "what is open is published as the queries stop"


CHANGES = (
    SHOP.split("views:")[0]
    + """\
views:
  counts: SELECT customer, count(*) AS n FROM orders GROUP BY customer
sinks:
  changes:
    from: counts
    mode: update
    format: penstock.filesystem
    options: {path: out, format: parquet, bucketAssigner: basePath}
trigger: availableNow
checkpoint: ck
spark: {spark.master: "local[2]", spark.sql.session.timeZone: UTC, spark.sql.shuffle.partitions: "2"}
"""
)


@pytest.mark.exhaustive("drivers of their own; connectors' tests have the mode in a program")
def test_update_writes_the_rows_that_have_changed(shop):
    run(shop, CHANGES)
    expected = Counter([(1, 1), (2, 1), (3, 1), (1, 2)])
    assert rows(shop / "out", "customer", "n") == expected
    add_orders(shop, 2, (5, 2))
    run(shop, CHANGES)
    assert rows(shop / "out", "customer", "n") == expected + Counter([(2, 2)])


JOIN = (
    SHOP.split("  customers:")[0]
    + """\
  payments:
    format: penstock.filesystem
    schema: id long, paid timestamp
    options: {path: payments, format: csv, maxFilesPerTrigger: 1}
    watermark: {column: paid, delay: 1 minute}
views:
  joined: >-
    SELECT o.id, p.paid FROM orders o JOIN payments p
    ON o.id = p.id AND p.paid BETWEEN o.at AND o.at + INTERVAL 1 HOUR
sinks:
  paid:
    from: joined
    format: penstock.filesystem
    options: {path: out, format: parquet, bucketAssigner: basePath}
trigger: availableNow
checkpoint: ck
spark: {spark.master: "local[2]", spark.sql.session.timeZone: UTC, spark.sql.shuffle.partitions: "2"}
"""
)


@pytest.mark.exhaustive("drivers of their own; Spark does the join")
def test_two_streams_are_joined_over_two_runs(shop):
    """A payment finds an order that an earlier run has read."""
    (shop / "payments").mkdir()
    (shop / "payments/0.csv").write_text("1,2026-01-01 10:05:00\n2,2026-01-01 12:00:00\n")
    run(shop, JOIN)
    assert rows(shop / "out", "id") == Counter([(1,)])
    (shop / "payments/1.csv").write_text("3,2026-01-01 10:30:00\n")
    add_orders(shop, 30, (5, 1))
    run(shop, JOIN)
    assert rows(shop / "out", "id") == Counter([(1,), (3,)])


THIRD = (
    SINKS
    + """\
  third:
    from: named
    format: penstock.filesystem
    options: {path: out/third, format: parquet, bucketAssigner: basePath}
"""
)


@pytest.mark.exhaustive("drivers of their own; test_sink_group.py has a group without Spark")
@pytest.mark.parametrize("commit", ["together", "each"])
def test_sinks_are_taken_out_and_added_between_runs(shop, commit):
    """A sink has the batches that ran while it was in the file, once each."""
    text = SHOP + f"commit: {commit}\n"
    run(shop, text + SINKS)
    add_orders(shop, 2, (5, 1))
    run(shop, text + SINKS.split("  odd:")[0])
    add_orders(shop, 3, (7, 1), (8, 1))
    _, err = run(shop, text + THIRD)
    assert err == ""
    assert rows(shop / "out/every", "id") == Counter((one,) for one in (1, 2, 3, 4, 5, 7, 8))
    assert rows(shop / "out/odd", "id") == Counter((one,) for one in (1, 3, 7))
    assert rows(shop / "out/third", "id") == Counter((one,) for one in (7, 8))
