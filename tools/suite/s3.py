"""A real S3 server (moto's), one for each process of the tests. Take buckets of your own."""

from __future__ import annotations

import collections
import functools
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["S3Server", "s3_server", "started_s3_server"]


@dataclass
class S3Server:
    """Where the server listens, and a client of it. Any credentials will do, unless the server checks rights."""

    endpoint: str
    key: str = "testing"
    secret: str = "testing"

    def options(self) -> dict[str, str]:
        """As users of ``s3://`` paths give them."""
        return {
            **{"s3.endpoint": self.endpoint, "s3.region": "us-east-1"},
            **{"s3.key": self.key, "s3.secret": self.secret},
        }

    @functools.cached_property
    def client(self) -> Any:
        """boto3's."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name="us-east-1",
        )


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A process of its own."""
    with started_s3_server() as server:
        yield server


@contextmanager
def started_s3_server(environment: Mapping[str, str] | None = None) -> Iterator[S3Server]:
    """A process on a free port of 127.0.0.1. It says which, once it listens."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if running := re.search(r"Running on (http://127\.0\.0\.1:\d+)", line):
                break
        else:
            pytest.fail(f"the S3 server does not start: {''.join(said)}")
        # It goes on writing, and would block if nobody read.
        reader = threading.Thread(target=collections.deque, args=(process.stderr, 0), daemon=True)
        reader.start()
        try:
            yield S3Server(running[1])
        finally:
            process.kill()
            reader.join()
