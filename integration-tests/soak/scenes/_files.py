"""Kafka to files on S3, exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from penstock_kafka.dev import kafka_server
from soak.findings import Findings
from soak.records import PollingChecker
from soak.scenes._kafka import kafka_to
from soak.scenes._scene import Scene, keep_copying, network_faults, stands_still
from suite.bad_network import BadNetwork
from suite.s3 import S3Server, started_s3_server

__all__ = ["files_scene"]

_BUCKET, _FOLDER = "soak", "out"
#: Every batch is visible at once.
_PARTS = {"format": "text", "rollingPolicy": "onCheckpoint"}


class _Reader(PollingChecker):
    """Reads the objects that have become visible."""

    def __init__(self, server: S3Server, findings: Findings) -> None:
        super().__init__(findings, ordered=False)
        self._server = server
        self._read: set[str] = set()

    def take(self) -> Sequence[str]:
        new: list[str] = []
        pages = self._server.client.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix=f"{_FOLDER}/")
        for name in [entry["Key"] for page in pages for entry in page.get("Contents", [])]:
            if name not in self._read and "/." not in name and "/_" not in name:
                body = self._server.client.get_object(Bucket=_BUCKET, Key=name)["Body"].read()
                self._read.add(name)
                new += body.decode().split()
        return new


def files_scene(folder: Path, rate: int, findings: Findings) -> Scene:
    """The store stands still (it keeps nothing when it ends), and the network is bad."""
    with ExitStack() as stack:
        broker = stack.enter_context(kafka_server(folder / "broker"))
        store = stack.enter_context(started_s3_server())
        store.client.create_bucket(Bucket=_BUCKET)
        place = urlsplit(store.endpoint).netloc
        network = stack.enter_context(BadNetwork(place))
        feeder, source = kafka_to(broker, "in", rate)
        where = {**store.options(), "s3.endpoint": f"http://{network.address}", "path": f"s3://{_BUCKET}/{_FOLDER}"}
        supervisor = keep_copying(
            folder,
            findings,
            source=source,
            columns=["cast(value as string) as value"],
            sink={
                "format": "penstock.filesystem",
                "options": {**where, "format": "text", "rollingPolicy": "onCheckpoint"},
            },
        )
        stack.callback(supervisor.stop)
        checker = _Reader(store, findings)
        stack.callback(checker.stop)
        faults = {"stands still": stands_still([place]), **network_faults([network])}
        return Scene(supervisor, feeder, checker, faults, ends=stack.pop_all())
