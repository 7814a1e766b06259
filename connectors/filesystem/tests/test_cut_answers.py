"""Answers of a store that are cut off in their heads: an error that is tried again, and no row is lost.

Arrow takes such an answer to a HEAD for an empty file, and one to a GET for bytes that are in memory by chance.
"""

from __future__ import annotations

import gzip
import io
import re
import socket
import threading

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from pyarrow import orc

from penstock.errors import DataLostError, RetriableError
from penstock.storage import LocalStorage, S3Storage
from penstock_filesystem.formats import InputFile, WholeFile, create_writer
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions
from penstock_filesystem.sink._committable import Chunk
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._staging import chunk_bytes, open_chunk
from penstock_filesystem.source._schema_location import SchemaLocation
from penstock_filesystem.source._split import FileSplit

HEAD = (
    'HTTP/1.1 {status}\r\nLast-Modified: Sat, 28 Nov 2026 12:00:00 GMT\r\nETag: "abc"\r\n'
    "Content-Length: {size}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
)
MTIME_NS = 1_795_867_200_000_000_000
#: Within the first line; behind it; within the length; at the end.
CUTS = [0, 10, 17, 60, 92, 96, 100, 120]


class Store:
    """A store with one object of each name in ``objects``. Cuts the heads of the answers of number ``cut``."""

    def __init__(self):
        self.objects, self.answers, self.cut, self.at = {}, 0, None, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                asked = b""
                while b"\r\n\r\n" not in asked and (more := connection.recv(65536)):
                    asked += more
                if asked:
                    connection.sendall(self._answer(asked.decode()))

    def _answer(self, asked):
        number, self.answers = self.answers, self.answers + 1
        body = self.objects[re.match(r"\w+ /b/([^? ]+)", asked)[1]]
        status = "200 OK"
        if found := re.search(r"\r\nrange: bytes=(\d+)-(\d+)", asked, re.IGNORECASE):
            body, status = body[int(found[1]) : int(found[2]) + 1], "206 Partial Content"
        head = HEAD.format(status=status, size=len(body)).encode()
        if number == self.cut:
            return head[: self.at]
        return head + (b"" if asked.startswith("HEAD") else body)

    def storage(self):
        return S3Storage({"endpoint": self.address, "key": "k", "secret": "s"})


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr("penstock.storage._s3._ATTEMPTS", 1)
    made = Store()
    yield made
    made.listening.close()


ROWS = [{"key": number, "value": f"text {number}"} for number in range(50)]
SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.string())])


def written(name, **options):
    values = SINK_OPTIONS.parse({"path": "/tmp/x", "format": name, **options}, owner="sink")
    writer, out = create_writer(SCHEMA, SinkOptions.from_values(values).format), io.BytesIO()
    encoder = writer.encoder(out, "salt")
    encoder.write(pa.RecordBatch.from_pylist(ROWS, SCHEMA))
    encoder.finish()
    return out.getvalue()


def written_orc():
    out = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(ROWS, SCHEMA), out)
    return out.getvalue()


FILES = {
    "csv": ("a.csv", written("csv"), {}),
    "json": ("a.json", written("json"), {}),
    "packed": ("a.json.gz", gzip.compress(written("json")), {"format": "json"}),
    "whole": ("a.csv", written("csv"), {"format": "csv", "multiLine": "true"}),
    "parquet": ("a.parquet", written("parquet"), {}),
    "orc": ("a.orc", written_orc(), {}),
    "avro": ("a.avro", written("avro"), {}),
    "sequencefile": ("a.seq", written("sequencefile"), {}),
}


def arrow_s3(store):
    return pafs.S3FileSystem(
        access_key="k",
        secret_key="s",
        region="us-east-1",
        scheme="http",
        endpoint_override=store.address.removeprefix("http://"),
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


@pytest.fixture(autouse=True)
def _no_look_at_the_server(monkeypatch):
    """It would count as an answer."""
    monkeypatch.setattr("penstock.storage._endpoint.look_at", lambda *_, **__: None)


@pytest.mark.parametrize(
    ("kind", "remembers"),
    [*((kind, False) for kind in FILES), ("parquet", True), ("orc", True), ("avro", True), ("json", True)],
)
def test_no_row_is_lost_by_any_answer_that_is_cut(store, source_harness, tmp_path, kind, remembers):
    """Of each answer, at each of some places. With ignoreCorruptFiles and changedFiles=skip, rows would be lost."""
    name, data, options = FILES[kind]
    if remembers:
        options = {**options, "schemaLocation": str(tmp_path)}
        SchemaLocation(LocalStorage(), str(tmp_path)).begin(SCHEMA)
    store.objects[name] = data
    lenient = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true", "changedFiles": "skip"}
    given = {"format": kind, "s3_endpoint": store.address, "s3_key": "k", "s3_secret": "s", **lenient, **options}
    source = source_harness.source("s3://b/in", **given)
    source._storage.__dict__["fs"] = arrow_s3(store)
    split = FileSplit(f"b/{name}", MTIME_NS, len(data), 0, len(data))

    rows = source_harness.read_splits(source, [split], SCHEMA).to_pylist()
    assert rows == ROWS
    tried = 0
    for number in range(16):
        for at in CUTS:
            store.answers, store.cut, store.at = 0, number, at
            try:
                rows = source_harness.read_splits(source, [split], SCHEMA).to_pylist()
            except RetriableError:
                rows = ROWS
            assert rows == ROWS, (number, at)
            tried += 1
        if store.answers <= number:
            break
    assert 2 * len(CUTS) < tried < 16 * len(CUTS)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "orc", "avro"])
def test_no_column_is_lost_by_any_answer_that_is_cut(store, source_harness, kind):
    name, store.objects[name], options = FILES[kind][0], FILES[kind][1], {"header": "true", "inferSchema": "true"}
    given = {"format": kind, "s3_endpoint": store.address, "s3_key": "k", "s3_secret": "s"}
    source = source_harness.source("s3://b/in", **given, **(options if kind == "csv" else {}))
    source._storage.__dict__["fs"] = arrow_s3(store)
    file = InputFile(source._storage, f"b/{name}", len(store.objects[name]))

    def columns():
        inference = source._format_reader.inference(lambda _: None)
        inference.add(file)
        return inference.schema()

    expected = columns()
    assert len(expected) == 2
    for number in range(12):
        for at in CUTS:
            store.answers, store.cut, store.at = 0, number, at
            try:
                assert columns() == expected, (number, at)
            except RetriableError:
                continue
        if store.answers <= number:
            break
    assert number >= 1


def test_a_chunk_is_read_as_a_whole_or_not(store):
    store.objects["out/.penstock/c"] = data = b"0123456789" * 100
    layout = Layout(store.storage(), "b/out", "part", "")
    chunk = Chunk("", ".penstock/c", len(data), 1, "json", ".json", "", 0, 0, 0)
    assert b"".join(chunk_bytes(layout, chunk, 10)) == data[10:]
    for number in range(4):
        for at in CUTS:
            store.answers, store.cut, store.at = 0, number, at
            try:
                assert b"".join(chunk_bytes(layout, chunk, 0)) == data
            except (RetriableError, OSError):
                continue
    store.cut = None
    store.objects["out/.penstock/c"] = data[:-1]
    with pytest.raises(DataLostError, match="has 999 bytes where 1000 were committed"):
        open_chunk(layout, chunk)


def test_a_whole_file_says_what_is_missing(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    with pytest.raises(RetriableError, match="x has 11 bytes, and 10 when it is opened"):
        WholeFile(pa.OSFile(str(path)), 11, "x")
    with WholeFile(pa.OSFile(str(path)), 10, "x") as file:
        assert (file.read(4), file.tell(), file.seek(-2, io.SEEK_END), file.read(), file.read(1)) == (
            b"0123",
            4,
            8,
            b"89",
            b"",
        )
        file.seek(2)
        path.write_bytes(b"012345")
        with pytest.raises(RetriableError, match="x: 4 bytes came where 8 are"):
            file.read()
