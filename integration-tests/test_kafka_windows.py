"""The example of windowed counts from Kafka to Kafka, as its page says to run it: killed on the way, and not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "kafka_windows" / "demo.py"


@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.budget(40)
@pytest.mark.parametrize(
    ("kills", "seconds"),
    [
        (0, 2),
        pytest.param(
            2,
            20,
            marks=pytest.mark.exhaustive(
                "killed twice; test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks has such a stream"
            ),
        ),
    ],
)
def test_windowed_counts(kafka, kills, seconds):
    environment = dict(os.environ, PENSTOCK_KAFKA_ADDRESS=kafka.address, SPARK_LOCAL_IP="127.0.0.1")
    command = [sys.executable, str(DEMO), "--kills", str(kills), "--feed-seconds", str(seconds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "lost=0 doubled=0" in done.stdout
