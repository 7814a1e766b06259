"""Processes that are killed with SIGKILL, at the two moments that matter most."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from penstock_postgres import PostgresConnector

from penstock.testing import SinkQuery

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = range(30_000)
#: Batch 0 of two tasks. The process stops itself before the moment ``before``, to be killed there.
CHILD = """
import os, pickle, signal, sys, time
from pathlib import Path
import pyarrow as pa
from penstock.testing import SinkQuery
from penstock_postgres.client import CopyIn, TwoPhaseTable

sink, schema, checkpoint, shares, before = pickle.load(sys.stdin.buffer)

def hold(*arguments):
    Path(checkpoint, "held").touch()
    while True:
        time.sleep(60)

if before == "the end of COPY":
    CopyIn.finish = hold
if before == "COMMIT PREPARED":
    TwoPhaseTable.commit = hold
SinkQuery(sink, schema, Path(checkpoint), "q").run_all([shares])
"""


def batch(ids):
    return pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA)


class Killed:
    def __init__(self, postgres, folder, columns="id bigint"):
        self.postgres, self.folder, self.table = postgres, folder, postgres.table(columns)
        options = PostgresConnector.sink_options.parse(postgres.options(self.table), owner="sink")
        self.sink = PostgresConnector().create_sink(options, SCHEMA)
        self.shares = [[batch(ROWS[:20_000])], [batch(ROWS[20_000:])]]

    def kill_before(self, moment, has_come):
        """Runs the query in a process of its own, and kills it once the server shows that it is there."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, env=environment)
        try:
            child.stdin.write(pickle.dumps((self.sink, SCHEMA, str(self.folder), self.shares, moment)))
            child.stdin.close()
            until = time.monotonic() + 60
            while not has_come():
                assert child.poll() is None, "the process has ended by itself"
                assert time.monotonic() < until, "the moment has not come"
                time.sleep(0.02)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()

    def restart(self):
        SinkQuery(self.sink, SCHEMA, self.folder, "q").run_all([self.shares])

    def rows(self):
        return [i for (i,) in self.postgres.run(f"select id from {self.table} order by id")]


@pytest.fixture(params=["id bigint", "id bigint primary key"])
def killed(postgres, tmp_path, request):
    return Killed(postgres, tmp_path / "checkpoint", request.param)


def test_killed_during_copy(killed):
    copied = "select tuples_processed from pg_stat_progress_copy where relid = %s::regclass"

    def copies():
        found = killed.postgres.run(copied, [killed.table])
        return bool(found) and found[0][0] > 0

    killed.kill_before("the end of COPY", copies)
    killed.restart()
    assert killed.rows() == list(ROWS) and killed.postgres.prepared(killed.table) == []


def test_killed_between_the_decision_and_commit_prepared(killed):
    killed.kill_before("COMMIT PREPARED", (killed.folder / "held").exists)
    assert killed.rows() == []
    gids = killed.postgres.prepared(killed.table)
    assert len(gids) == 2
    transactions = "select transaction::text from pg_prepared_xacts where gid = any(%s) order by 1"
    prepared = killed.postgres.run(transactions, [gids])
    killed.restart()
    assert killed.rows() == list(ROWS) and killed.postgres.prepared(killed.table) == []
    written_by = killed.postgres.run(f"select distinct xmin::text from {killed.table} order by 1")
    assert written_by == prepared, "the batch was written again, and not published as it was decided"
