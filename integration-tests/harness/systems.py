"""Provides S3 buckets and Pravega scopes."""

from __future__ import annotations

import io
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.dev import open_server
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox

__all__ = ["Bucket", "pravega_server"]


class Bucket:
    """A new bucket on an S3 server. The credentials come from the environment."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.name = f"penstock-test-{uuid.uuid4().hex[:8]}"
        self.client: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        self.client.create_bucket(Bucket=self.name)

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yields the rows of the visible Parquet objects."""
        for key in self.keys():
            if key.endswith(".parquet") and "/." not in f"/{key}":
                body = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
                yield pq.read_table(io.BytesIO(body), columns=columns)

    def rows(self, column: str = "id") -> Counter[Any]:
        """Counts the values of ``column`` in the visible Parquet objects."""
        return Counter(value for table in self.tables([column]) for value in table.column(0).to_pylist())

    def open_uploads(self) -> list[str]:
        return [u["Key"] for u in self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])]


@contextmanager
def pravega_server(folder: Path) -> Iterator[PravegaToolbox]:
    """Opens a new scope on the server of ``PENSTOCK_PRAVEGA_ADDRESS``, or on one that it starts."""
    with open_server(PravegaDevServer(quick_start=True), folder) as address:
        toolbox = PravegaToolbox(address, f"killed-{uuid.uuid4().hex[:8]}")
        yield toolbox
        toolbox.close()
