"""What the class of a connector carries to the processes in which Spark plans and commits."""

from __future__ import annotations

import subprocess
import sys

from pyspark import cloudpickle

from penstock.spark._data_source import data_source_of

READ = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).session)"


def test_it_carries_the_session_to_other_processes():
    """By it a process knows that another one of the same session has planned: it claims the log back."""
    source = data_source_of("filesystem", parallelism=1, accumulator=None, session="of-this-session")
    sent = cloudpickle.dumps(source)
    command = [sys.executable, "-c", READ]
    done = subprocess.run(command, input=sent, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().strip() == "of-this-session"
