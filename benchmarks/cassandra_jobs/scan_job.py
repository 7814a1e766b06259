"""What a task does, for all splits of a table one after the other: prints rows, their sizes, and its peak memory.

Argument: the source's options, as JSON.
"""

from __future__ import annotations

import json
import sys

from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator
from penstock_cassandra.options import SOURCE_OPTIONS, SourceOptions
from penstock_cassandra.source import CassandraSource


def main() -> None:
    """Reads the table."""
    source = CassandraSource(SourceOptions.from_values(SOURCE_OPTIONS.parse(json.loads(sys.argv[1]), owner="bench")))
    schema = source.fixed_schema()
    assert schema is not None
    sizes, rows = [], 0
    for split in list(source.list_splits(Coordinator())):
        size = 0
        for batch in SourceReader(source, ReaderContext(schema, Metrics())).read([split]):
            size += batch.nbytes
            rows += batch.num_rows
        sizes.append(size)
    # Not getrusage: its peak counts what the process was before it became this one.
    with open("/proc/self/status") as status:
        (peak,) = [line.split()[1] for line in status if line.startswith("VmHWM:")]
    print(json.dumps({"rows": rows, "sizes": sizes, "peak_mb": int(peak) / 1024}))


if __name__ == "__main__":
    main()
