"""The example with a pipeline file from Kafka into three sinks, stopped in the middle and started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "orders" / "demo.py"


@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.exhaustive("two runs of a file with three sinks; test_pipeline_file.py kills such a run between two sinks")
def test_orders_are_counted_once_in_three_sinks(kafka, cassandra):
    environment = {
        **os.environ,
        "PENSTOCK_KAFKA_ADDRESS": kafka.address,
        "PENSTOCK_CASSANDRA_ADDRESS": cassandra.address,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, str(DEMO), "--orders", "6000"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-3000:]
    assert done.stdout.count("lost=0 doubled or wrong=0") == 3
    assert done.stdout.count("stopped after") == 2 and done.stdout.count("all published") == 2
