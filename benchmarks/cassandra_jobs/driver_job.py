"""The plain driver in one process, as its manual has it: ``execute_concurrent_with_args``, and iterating over pages.

Arguments: host, port, keyspace. Standard input as in ``spark_job.py``.
"""

from __future__ import annotations

import hashlib
import sys
import time

from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args

HOST, PORT, KEYSPACE = sys.argv[1:4]


def main() -> None:
    """Until standard input ends."""
    with Cluster([HOST], port=int(PORT)) as cluster:
        session = cluster.connect(KEYSPACE)
        session.default_timeout = 60
        print("ready", flush=True)
        for line in sys.stdin:
            what, table, *rest = line.split()
            started = time.perf_counter()
            if what == "write":
                statement = session.prepare(f"insert into {table} (id, name, note) values (?, ?, ?)")
                rows = ((n, f"name-{n}", hashlib.sha256(b"%d" % n).hexdigest()[:40] * 2) for n in range(int(rest[0])))
                execute_concurrent_with_args(session, statement, rows, concurrency=64)
            else:
                for _ in session.execute(f"select * from {table}"):
                    pass
            print("took", time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main()
